"""Rows of each cloud of a batch."""

from __future__ import annotations

import torch
from torch import Tensor


def gather_rows(rows: Tensor, indices: Tensor) -> Tensor:
    """Collect rows of each cloud of a batch.

    Parameters
    ----------
    rows : Tensor, (B, P, *F)
        One row per point.
    indices : Tensor, (B, *I), int64
        Positions in the cloud of the same batch entry.

    Returns
    -------
    Tensor, (B, *I, *F), dtype of ``rows``
        One row per index.

    Equivariance
    ------------
    Invariant to permutations of points that rename the indices.

    Examples
    --------
    >>> gather_rows(torch.tensor([[[1], [2], [3]]]), torch.tensor([[2, 0]])).tolist()
    [[[3], [1]]]
    """
    batch, points = rows.shape[:2]
    shift = points * torch.arange(batch, device=indices.device)
    flat = (indices + shift.view(-1, *[1] * (indices.ndim - 1))).flatten()
    # One index_select over all clouds: its backward is an index_add, with no index per channel.
    return rows.flatten(0, 1).index_select(0, flat).view(*indices.shape, *rows.shape[2:])
