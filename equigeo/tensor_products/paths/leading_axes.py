"""Leading axes of features."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def fit_together(values: Sequence[Tensor | None], dims: Sequence[int]) -> bool:
    """Tell whether features fit without broadcasting, as they nearly always do, in little time.

    Parameters
    ----------
    values : sequence of Tensor or None, (..., dim)
        Features with the same leading axes, or without any but the last.
    dims : sequence of int
        Last axes; that of a missing value does not count.

    Returns
    -------
    bool
        False says nothing: errors are for slower checks to find.
    """
    x = values[0]
    # A compiler would take the sizes of equal shapes for constants.
    if torch.compiler.is_compiling() or not isinstance(x, Tensor) or not x.is_floating_point():
        return False
    batch, dtype, device = x.shape[:-1], x.dtype, x.device
    for value, dim in zip(values, dims, strict=True):
        if value is None:
            continue
        if not isinstance(value, Tensor) or value.dtype != dtype or value.device != device:
            return False
        shape = value.shape
        if shape != (*batch, dim) and (shape != (dim,) or value is x):
            return False
    return True


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
