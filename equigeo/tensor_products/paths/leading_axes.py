"""Leading axes of features."""

from __future__ import annotations

import torch
from torch import Tensor


def broadcast_batch(*values: Tensor) -> torch.Size:
    """Broadcast the axes before the last.

    ``torch.broadcast_shapes`` takes longer than many a product; nearly always all are the same.

    Parameters
    ----------
    *values : Tensor, (..., dim)
        Features, of any last axes.

    Returns
    -------
    torch.Size
        The leading axes of all together.

    Raises
    ------
    RuntimeError
        If they do not broadcast.
    """
    first, *others = [value.shape[:-1] for value in values]
    if all(shape == first for shape in others):
        return first
    return torch.broadcast_shapes(first, *others)


def as_rows(value: Tensor, batch: torch.Size) -> Tensor:
    """Broadcast the leading axes and make them one.

    Parameters
    ----------
    value : Tensor, (..., dim)
        Features.
    batch : torch.Size
        Leading axes.

    Returns
    -------
    Tensor, (rows, dim)
        The value itself where it has this shape.
    """
    if value.ndim == 2 and value.shape[:-1] == batch:
        return value
    return value.expand(*batch, value.shape[-1]).reshape(-1, value.shape[-1])


def from_rows(rows: Tensor, batch: torch.Size) -> Tensor:
    """Give rows their leading axes back, the inverse of :func:`as_rows`.

    Parameters
    ----------
    rows : Tensor, (rows, dim)
        Features, contiguous.
    batch : torch.Size
        Leading axes.

    Returns
    -------
    Tensor, (..., dim)
        The same numbers.
    """
    return rows if len(batch) == 1 else rows.view(*batch, rows.shape[1])
