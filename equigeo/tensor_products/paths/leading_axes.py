"""Leading axes of features."""

from __future__ import annotations

import torch
from torch import Tensor


def broadcast_batch(*values: Tensor) -> torch.Size:
    """Broadcast the axes before the last; fast for equal shapes."""
    first, *others = [value.shape[:-1] for value in values]
    # torch.broadcast_shapes takes longer than many products.
    if all(shape == first for shape in others):
        return first
    return torch.broadcast_shapes(first, *others)


def as_rows(
    value: Tensor,  # (..., dim)
    batch: torch.Size,
) -> Tensor:  # (rows, dim)
    """Broadcast the leading axes and flatten them into one."""
    if value.ndim == 2 and value.shape[:-1] == batch:
        return value
    return value.expand(*batch, value.shape[-1]).reshape(-1, value.shape[-1])


def from_rows(
    rows: Tensor,  # (rows, dim), contiguous
    batch: torch.Size,
) -> Tensor:  # (..., dim)
    """Restore the leading axes: the inverse of :func:`as_rows`."""
    return rows if len(batch) == 1 else rows.view(*batch, rows.shape[1])
