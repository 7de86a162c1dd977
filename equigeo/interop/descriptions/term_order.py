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
    """Sort terms, or keep them, and return the new position of each old term."""
    if order is None:
        return irreps, list(range(len(irreps.terms)))
    sorted_irreps, old = sort_irreps(irreps, order)
    return sorted_irreps, [old.index(k) for k in range(len(old))]


def sort_paths(
    paths: Sequence[tuple[int, ...]],  # terms of each path, output last
    order: WeightOrder | None,  # by output term, by input terms first, or unsorted
) -> list[int]:
    """Return the previous positions of sorted paths."""
    if order not in ("output", "instruction", None):
        raise ValueError(f'weight_order must be "output", "instruction" or None, got {order!r}')
    numbers = list(range(len(paths)))
    if order is None:
        return numbers
    # Among paths into one term the order of the instructions stays, as MACE sorts.
    return sorted(numbers, key=lambda n: paths[n] if order == "instruction" else paths[n][-1:])


def block_positions(
    sizes: Sequence[int],  # block sizes in the old order
    order: Sequence[int],  # previous position of each block
) -> Tensor:
    """Return the previous position of each element of rearranged blocks."""
    blocks = torch.arange(sum(sizes)).split(list(sizes))
    return torch.cat([torch.arange(0), *(blocks[k] for k in order)])


def take(values: Tensor, positions: Tensor) -> Tensor:
    """Rearrange flat weights; external weights are empty and do not change."""
    return values[..., positions.to(values.device)] if values.numel() else values
