"""Edges of PyTorch Geometric."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.interop._require import require_pyg


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
