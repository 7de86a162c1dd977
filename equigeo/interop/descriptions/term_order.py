"""Moving terms of irreps and blocks of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from equigeo.interop.sort_irreps import IrrepsOrder, sort_irreps
from equigeo.reps import Irreps

WeightOrder = Literal["output", "instruction"]


def sort_terms(irreps: Irreps, order: IrrepsOrder | None) -> tuple[Irreps, list[int]]:
    """Sort terms, or leave them, and return the new position of each old term."""
    if order is None:
        return irreps, list(range(len(irreps.terms)))
    sorted_irreps, old = sort_irreps(irreps, order)
    return sorted_irreps, [old.index(k) for k in range(len(old))]


def sort_paths(paths: Sequence[tuple[int, ...]], order: WeightOrder | None) -> list[int]:
    """Sort paths, each a tuple of terms with that of the output last.

    Parameters
    ----------
    paths : sequence of tuple of int
        Terms that each path joins.
    order : {"output", "instruction"} or None
        By the term of the output, by those of the inputs first, or not at all.

    Returns
    -------
    list of int
        Where each sorted path was before.

    Raises
    ------
    ValueError
        If the order is unknown.
    """
    if order not in ("output", "instruction", None):
        raise ValueError(f'weight_order must be "output", "instruction" or None, got {order!r}')
    numbers = list(range(len(paths)))
    if order is None:
        return numbers
    # Among paths into one term the order of the instructions stays, as MACE sorts.
    return sorted(numbers, key=lambda n: paths[n] if order == "instruction" else paths[n][-1:])


def block_positions(sizes: Sequence[int], order: Sequence[int]) -> Tensor:
    """Positions of the numbers of rearranged blocks.

    Parameters
    ----------
    sizes : sequence of int
        Of the blocks in their old order.
    order : sequence of int
        Where each block was before.

    Returns
    -------
    Tensor, (sum of sizes,), int64
        Where each number was before.

    Examples
    --------
    >>> block_positions([2, 1, 3], [2, 0, 1]).tolist()
    [3, 4, 5, 0, 1, 2]
    """
    blocks = torch.arange(sum(sizes)).split(list(sizes))
    return torch.cat([torch.arange(0), *(blocks[k] for k in order)])


def take(values: Tensor, positions: Tensor) -> Tensor:
    """Rearrange flat weights, leaving those alone that are external and hence empty."""
    return values[..., positions.to(values.device)] if values.numel() else values
