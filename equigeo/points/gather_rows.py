"""Rows of each cloud of a batch."""

from __future__ import annotations

import torch
from torch import Tensor


def take_rows(rows: Tensor, indices: Tensor) -> Tensor:
    """Collect rows of each cloud.

    Parameters
    ----------
    rows : Tensor, (B, P, C)
        One row per point.
    indices : Tensor, (B, *I), int64
        Rows of the cloud of the same batch entry.

    Returns
    -------
    Tensor, (B, *I, C), dtype of ``rows``
        The rows.

    Examples
    --------
    >>> take_rows(torch.tensor([[[1], [2], [3]]]), torch.tensor([[2, 0]])).tolist()
    [[[3], [1]]]
    """
    batch, points = rows.shape[:2]
    shift = points * torch.arange(batch, device=indices.device)
    flat = (indices + shift.view(-1, *[1] * (indices.ndim - 1))).flatten()
    return rows.flatten(0, 1).index_select(0, flat).view(*indices.shape, -1)
