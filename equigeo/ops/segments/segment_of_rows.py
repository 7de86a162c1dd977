"""The segment of each row of a list that is sorted by segments."""

from __future__ import annotations

import torch
from torch import Tensor


def segment_of_rows(
    ends: Tensor,  # (segments,), int64, ascending: end of each segment
    rows: int,  # number of rows
) -> Tensor:  # (rows,), int64
    """Return the segment of each row, or the number of segments for rows beyond the last end."""
    # Never writes out of bounds; repeat_interleave(output_size=rows) trusts the offsets.
    places = torch.arange(rows, device=ends.device)
    return torch.searchsorted(ends.contiguous(), places, right=True)
