"""Offsets and numbers of graphs in a batch."""

from __future__ import annotations

import torch
from torch import Tensor


def batch_to_ptr(batch: Tensor, num_graphs: int | None = None) -> Tensor:
    """Convert ascending graph numbers of rows to offsets (num_graphs + 1,)."""
    _check("batch", batch)
    if len(batch) and (int(batch[0]) < 0 or not bool((batch[1:] >= batch[:-1]).all())):
        raise ValueError("batch must ascend from 0 or more: the rows of a graph are consecutive")
    last = int(batch[-1]) + 1 if len(batch) else 0
    graphs = last if num_graphs is None else num_graphs
    if last > graphs:
        raise ValueError(f"batch must lie in [0, {graphs}), got {last - 1}")
    ptr = batch.new_zeros(graphs + 1)
    ptr[1:] = torch.cumsum(torch.bincount(batch, minlength=graphs), dim=0)
    return ptr


def ptr_to_batch(ptr: Tensor) -> Tensor:
    """Convert ascending offsets from 0 to graph numbers of rows."""
    _check("ptr", ptr)
    if len(ptr) == 0 or int(ptr[0]) != 0 or not bool((ptr.diff() >= 0).all()):
        raise ValueError("ptr must be offsets that start at 0 and ascend")
    return torch.repeat_interleave(ptr.diff())


def _check(name: str, values: Tensor) -> None:
    if values.dtype != torch.int64:
        raise TypeError(f"{name} must be int64, got {values.dtype}")
    if values.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got {tuple(values.shape)}")
