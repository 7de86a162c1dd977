"""Two ways to say which rows belong to which graph of a batch."""

from __future__ import annotations

import torch
from torch import Tensor


def batch_to_ptr(batch: Tensor, num_graphs: int | None = None) -> Tensor:
    """Convert graph numbers of rows to offsets.

    Parameters
    ----------
    batch : Tensor, (rows,), int64
        Graph of each row, ascending.
    num_graphs : int, optional
        By default one more than the last graph that has a row.

    Returns
    -------
    Tensor, (num_graphs + 1,), int64
        Rows ``ptr[g] .. ptr[g + 1]`` belong to graph ``g``.

    Raises
    ------
    TypeError
        If the indices are not int64.
    ValueError
        If the shape is wrong, the graphs do not ascend, or one is out of range.

    Examples
    --------
    >>> batch_to_ptr(torch.tensor([0, 0, 2]), num_graphs=4).tolist()
    [0, 2, 2, 3, 3]
    """
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
    """Convert offsets to graph numbers of rows.

    Parameters
    ----------
    ptr : Tensor, (num_graphs + 1,), int64
        Offsets from 0, ascending.

    Returns
    -------
    Tensor, (rows,), int64
        Graph of each row.

    Raises
    ------
    TypeError
        If the offsets are not int64.
    ValueError
        If the shape is wrong, or offsets do not ascend from 0.

    Examples
    --------
    >>> ptr_to_batch(torch.tensor([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    _check("ptr", ptr)
    if len(ptr) == 0 or int(ptr[0]) != 0 or not bool((ptr.diff() >= 0).all()):
        raise ValueError("ptr must be offsets that start at 0 and ascend")
    return torch.repeat_interleave(ptr.diff())


def _check(name: str, values: Tensor) -> None:
    if values.dtype != torch.int64:
        raise TypeError(f"{name} must be int64, got {values.dtype}")
    if values.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got {tuple(values.shape)}")
