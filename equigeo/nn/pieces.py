"""Split rows at block boundaries, so that the backward pass concatenates gradients once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor


def cut_pieces(
    ranges: Iterable[tuple[int, int]],  # (start, size), nonempty, equal or disjoint
    end: int,  # length of the row
) -> tuple[list[int], dict[int, int]]:
    """Return sizes of all pieces of a row for ``Tensor.split``, and the piece index per offset."""
    cuts = sorted({0, end, *(cut for start, size in ranges for cut in (start, start + size))})
    return [after - cut for cut, after in pairwise(cuts)], {
        cut: number for number, cut in enumerate(cuts[:-1])
    }


def join_sums(
    arriving: Sequence[Sequence[Tensor]],  # (..., size) per term
    sizes: Sequence[int],  # sizes of the terms
    batch: torch.Size,  # leading axes
    like: Tensor,  # tensor with the dtype of the result without contributions
) -> Tensor:  # (*batch, sum of sizes)
    """Sum the contributions to each term and concatenate the terms; zero without contributions."""
    # Autocast decides the dtype of contributions.
    like = next((part for parts in arriving for part in parts), like)
    out = [like.new_zeros(*batch, 0)]
    for parts, size in zip(arriving, sizes, strict=True):
        total = sum(parts[1:], parts[0]) if parts else like.new_zeros(size)
        out.append(total.expand(*batch, -1))
    return torch.cat(out, dim=-1)
