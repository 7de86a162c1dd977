"""The segment of each row of a list that is sorted by segments."""

from __future__ import annotations

import torch
from torch import Tensor


def segment_of_rows(ends: Tensor, rows: int) -> Tensor:
    """Find the segment that each row is in.

    Stays inside its result whatever the offsets are; :func:`torch.repeat_interleave`, told how many
    rows there are, writes as many as the offsets say.

    Parameters
    ----------
    ends : Tensor, (segments,), int64
        Where each segment ends and the next one begins, ascending.
    rows : int
        How many rows there are.

    Returns
    -------
    Tensor, (rows,), int64
        The number of segments for a row behind the last.

    Examples
    --------
    >>> import torch
    >>> segment_of_rows(torch.tensor([2, 2, 3]), 4)
    tensor([0, 0, 2, 3])
    """
    places = torch.arange(rows, device=ends.device)
    return torch.searchsorted(ends.contiguous(), places, right=True)
