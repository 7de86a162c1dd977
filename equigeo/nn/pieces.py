"""Rows cut into pieces, so that autograd puts gradients together once, and put together.

A narrowed view has a gradient of its own, as long as the row and nearly all zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor


def cut_pieces(ranges: Iterable[tuple[int, int]], end: int) -> tuple[list[int], dict[int, int]]:
    """Cut a row where ranges of it begin and end.

    Parameters
    ----------
    ranges : iterable of (int, int)
        Where each begins and how long it is, none of them empty; equal or apart.
    end : int
        Length of the row.

    Returns
    -------
    list of int
        Sizes of all pieces, gaps between the ranges included, as ``Tensor.split`` takes them.
    dict
        The number of the piece that begins at a place.

    Examples
    --------
    >>> cut_pieces([(1, 2), (3, 1)], 6)
    ([1, 2, 1, 2], {0: 0, 1: 1, 3: 2, 4: 3})
    """
    cuts = sorted({0, end, *(cut for start, size in ranges for cut in (start, start + size))})
    return [after - cut for cut, after in pairwise(cuts)], {
        cut: number for number, cut in enumerate(cuts[:-1])
    }


def join_sums(
    arriving: Sequence[Sequence[Tensor]], sizes: Sequence[int], batch: torch.Size, like: Tensor
) -> Tensor:
    """Add what arrives at each term of a row, and lay the terms side by side.

    Parameters
    ----------
    arriving : sequence of sequence of Tensor, (..., size)
        For each term.
    sizes : sequence of int
        Of the terms.
    batch : torch.Size
        Leading axes.
    like : Tensor
        Which has the dtype of the row where nothing arrives. Autocast decides the others'.

    Returns
    -------
    Tensor, (*batch, sum of sizes)
        Zero in terms at which nothing arrives.
    """
    like = next((part for parts in arriving for part in parts), like)
    out = [like.new_zeros(*batch, 0)]
    for parts, size in zip(arriving, sizes, strict=True):
        total = sum(parts[1:], parts[0]) if parts else like.new_zeros(size)
        out.append(total.expand(*batch, -1))
    return torch.cat(out, dim=-1)
