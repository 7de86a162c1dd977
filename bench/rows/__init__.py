"""All rows of benchmarks, by family."""

from __future__ import annotations

from itertools import chain

from bench.row import Row
from bench.rows import affine, interop, mesh, points, potentials, products


def all_rows() -> list[Row]:
    """Rows of every family."""
    families = (products, affine, mesh, points, potentials, interop)
    return list(chain.from_iterable(family.rows() for family in families))
