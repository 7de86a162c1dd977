"""Conversion of batch vectors to offsets of consecutive clouds or graphs."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from equigeo.graphs.check_edges import check_offsets
from equigeo.graphs.inputs import TensorLike, as_indices, check_shape

_MOST_CLOUDS: Final = 2**27  # offsets of more would take more than a gibibyte


def cloud_offsets(
    rows: int,  # number of points of all clouds
    batch: TensorLike | None = None,  # (rows,) ascending; a missing number is an empty cloud
    ptr: TensorLike | None = None,  # (clouds + 1,)
) -> Tensor | None:
    """Return the offsets of clouds (clouds + 1,), given either form; None if neither is given."""
    if batch is not None and ptr is not None:
        raise ValueError("batch and ptr say the same: give one of them, got both")
    if ptr is not None:
        offsets = as_indices(ptr, "ptr")
        check_offsets(offsets, rows, "clouds")
        return offsets
    if batch is None:
        return None
    numbers = as_indices(batch, "batch")
    check_shape(numbers, "batch", (rows,))
    if numbers.is_meta:
        raise ValueError("batch must have values, got meta: give ptr, whose length is known")
    clouds = int(numbers[-1]) + 1 if rows else 0
    if clouds > _MOST_CLOUDS:
        raise ValueError(f"batch must number at most {_MOST_CLOUDS} clouds, got {clouds}")
    if not torch.compiler.is_compiling() and rows:
        _check_sorted(numbers)
    return torch.searchsorted(numbers, torch.arange(clouds + 1, device=numbers.device))


def _check_sorted(batch: Tensor) -> None:
    if int(batch[0]) < 0 or bool((batch.diff() < 0).any()):
        raise ValueError(
            "batch must be sorted and not negative: sort all rows by batch.argsort(stable=True)"
        )
