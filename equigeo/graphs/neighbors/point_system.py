"""System of points as float64 arrays: positions, lattice vectors and cutoff."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Shifts: TypeAlias = NDArray[np.int32]

LARGEST_SHIFT: Final = 2**31 - 1
"""Shifts are int32."""

LARGEST_LENGTH: Final = 1e150
"""Squares of larger lengths overflow."""

WORST_CONDITION: Final = 1e12
"""Of periodic lattice vectors of length one; beyond, they are taken for linearly dependent."""


@dataclass(frozen=True)
class PointSystem:
    """Points with optional periodic axes; :func:`check_system` validates the values."""

    positions: Doubles  # (points, dim) as given, never wrapped
    cell: Doubles  # (dim, dim); only periodic rows count
    pbc: NDArray[np.bool_]  # (dim,)
    cutoff: float  # edges are shorter


class Candidates(NamedTuple):
    """Directed pairs that include all edges, one per column."""

    pairs: Integers  # (2, pairs): sources, targets
    shift: NDArray[np.signedinteger] | None  # (dim, pairs) lattice vectors added to the target


def chunks(count: int, size: int = 2**15) -> Iterator[slice]:
    """Yield slices of a range, sized so that the work of each fits in the L2 cache."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def check_system(
    system: PointSystem,
    where: str = "",  # name of the system in a batch, for messages
) -> None:
    """Raise for numbers that are not finite or too large, and for dependent periodic vectors."""
    for name, value in (("positions", system.positions), ("cell", system.cell)):
        if not np.isfinite(value).all():
            raise ValueError(f"{name} must be finite, got NaN or infinity{where}")
        if value.size and np.abs(value).max() > LARGEST_LENGTH:
            raise ValueError(f"{name} must be at most {LARGEST_LENGTH:.0e} in size{where}")
    if not _independent(system.cell[system.pbc]):
        raise ValueError(
            "cell must have independent vectors along periodic axes, "
            f"got {system.cell.tolist()} with pbc {system.pbc.tolist()}{where}"
        )


def _independent(vectors: Doubles) -> bool:
    if len(vectors) == 0:
        return True
    # Not by their norms: squares of tiny components vanish.
    sizes = np.abs(vectors).max(axis=1, keepdims=True)
    if not sizes.all():
        return False
    scaled = vectors / sizes
    values = np.linalg.svd(scaled / np.linalg.norm(scaled, axis=1, keepdims=True), compute_uv=False)
    return bool(values[-1] * WORST_CONDITION > values[0])
