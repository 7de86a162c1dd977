"""Edges of PyTorch Geometric."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.interop.optional import require_pyg


def edge_index(source: Any, *, size: tuple[int, int] | None = None) -> EdgeIndex:
    """Convert and sort the edges of a graph of PyTorch Geometric, sources in row 0.

    Parameters
    ----------
    source : Tensor, torch_geometric.EdgeIndex, Data, Batch, or one edge type of HeteroData
        Edges (2, edges), int64, or an object with ``edge_index``.
    size : (int, int), optional
        Number of sources and targets; by default the sizes that ``source`` has, else one more than
        the largest index.

    Examples
    --------
    >>> import torch
    >>> edge_index(torch.tensor([[0, 1, 2], [1, 0, 1]]), size=(3, 3)).ptr.tolist()
    [0, 1, 3, 3]
    """
    edges = source if isinstance(source, Tensor) else getattr(source, "edge_index", None)
    if not isinstance(edges, Tensor):
        raise TypeError(
            f"expected edges (2, edges), or an object with edge_index, got {type(source).__name__}"
        )
    known: tuple[int | None, int | None] = (None, None)
    if size is not None:
        known = size
    elif source is not edges:
        known = source.size()
    elif hasattr(edges, "sparse_size"):
        known = edges.sparse_size()
    # torch_geometric.EdgeIndex is a tensor that checks itself at every step.
    plain = edges.as_tensor() if hasattr(edges, "as_tensor") else edges
    return EdgeIndex.from_edges(plain, *known)


def to_edge_index(edges: EdgeIndex) -> Any:
    """Convert edges to a ``torch_geometric.EdgeIndex`` with sizes and sort order, as given.

    Examples
    --------
    >>> import torch
    >>> edges = EdgeIndex.from_edges(torch.tensor([[0, 1, 2], [1, 0, 1]]), 3, 3)
    >>> to_edge_index(edges).sparse_size()  # doctest: +SKIP
    (3, 3)
    """
    return require_pyg().EdgeIndex(
        edges.edge_index.contiguous(),
        sparse_size=(edges.num_sources, edges.num_targets),
        sort_order="col" if edges.is_sorted else None,
    )


def batch_to_ptr(batch: Tensor, num_graphs: int | None = None) -> Tensor:
    """Convert ascending graph numbers of rows to offsets (num_graphs + 1,)."""
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
    """Convert ascending offsets from 0 to graph numbers of rows."""
    _check("ptr", ptr)
    if len(ptr) == 0 or int(ptr[0]) != 0 or not bool((ptr.diff() >= 0).all()):
        raise ValueError("ptr must be offsets that start at 0 and ascend")
    return torch.repeat_interleave(ptr.diff())


def _check(name: str, values: Tensor) -> None:
    if values.dtype != torch.int64:
        raise TypeError(f"{name} must be int64, got {values.dtype}")
    if values.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got {tuple(values.shape)}")
