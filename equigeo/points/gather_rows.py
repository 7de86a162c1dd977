"""Rows of each cloud of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike, as_indices, as_tensor
from equigeo.ops.runtime.torch_internals import check_in_program, values_readable


def gather_rows(rows: TensorLike, indices: TensorLike) -> Tensor:
    """Collect rows (B, P, *F) of each cloud by int64 indices (B, *I), to (B, *I, *F).

    Invalid indices raise `RuntimeError` if values can be read.

    Examples
    --------
    >>> gather_rows(torch.tensor([[[1], [2], [3]]]), torch.tensor([[2, 0]])).tolist()
    [[[3], [1]]]
    """
    table, index = as_tensor(rows, "rows"), as_indices(indices, "indices")
    if table.ndim < 2 or index.ndim < 1 or index.shape[0] != table.shape[0]:
        raise ValueError(
            "rows must be (B, P, ...) and indices (B, ...), "
            f"got {tuple(table.shape)} and {tuple(index.shape)}"
        )
    batch, points = table.shape[:2]
    # Beyond its end begins the next cloud.
    if index.numel() and values_readable(index):
        inside = (index.amin() >= 0) & (index.amax() < points)
        check_in_program(
            inside, f"indices must be from 0 to {points - 1}, the points of each cloud"
        )
    shift = points * torch.arange(batch, device=index.device)
    flat = (index + shift.view(-1, *[1] * (index.ndim - 1))).flatten()
    # One index_select over all clouds: its backward is an index_add, with no index per channel.
    return table.flatten(0, 1).index_select(0, flat).view(*index.shape, *table.shape[2:])
