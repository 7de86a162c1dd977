"""Orders of irreps in other libraries."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from equigeo.reps import Irreps

IrrepsOrder = Literal["e3nn", "natural"]


def sort_irreps(
    irreps: Irreps | str, order: IrrepsOrder = "e3nn"
) -> tuple[Irreps, tuple[int, ...]]:
    """Sort terms by degree, stably, and return them with the previous position of each.

    Parameters
    ----------
    irreps : Irreps or str
        Terms in any order; they are not merged.
    order : {"e3nn", "natural"}
        Odd before even, ``0o 0e 1o 1e 2o 2e``, as in e3nn and cuEquivariance's ``O3_e3nn``; or the
        parity of spherical harmonics first, ``0e 0o 1o 1e 2e 2o``, as in e3nn-jax and
        cuEquivariance's ``O3``.

    Examples
    --------
    >>> irreps, positions = sort_irreps("2e + 2o + 0e + 0o", "natural")
    >>> str(irreps), positions
    ('1x0e+1x0o+1x2e+1x2o', (2, 3, 0, 1))
    """
    if order not in ("e3nn", "natural"):
        raise ValueError(f'order must be "e3nn" or "natural", got {order!r}')
    irreps = Irreps(irreps) if isinstance(irreps, str) else irreps
    if order == "e3nn":
        return irreps.sort()

    def key(position: int) -> tuple[int, bool]:
        l, p = irreps.terms[position][1]
        return l, p != (-1) ** l

    positions = tuple(sorted(range(len(irreps.terms)), key=key))
    return Irreps([irreps.terms[k] for k in positions], irreps.layout), positions


def sort_features(x: Tensor, irreps: Irreps | str, order: IrrepsOrder = "e3nn") -> Tensor:
    """Rearrange the terms of features (..., dim) for the result of :func:`sort_irreps`."""
    irreps = Irreps(irreps) if isinstance(irreps, str) else irreps
    irreps.check_features(x)
    positions = sort_irreps(irreps, order)[1]
    slices = irreps.slices()
    return torch.cat([x[..., :0], *(x[..., slices[k]] for k in positions)], dim=-1)
