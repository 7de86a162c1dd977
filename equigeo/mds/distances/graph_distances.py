"""Distances between the nodes of a graph."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor

KINDS = ("shortest", "resistance")


def graph_distances(
    edge_index: Tensor,
    lengths: Tensor | None = None,
    *,
    num_nodes: int | None = None,
    kind: str = "shortest",
) -> Tensor:
    """Measure distances between all nodes, to be embedded by :func:`distance_embed`.

    Parameters
    ----------
    edge_index : Tensor, (2, edges), int64
        Edges; directions do not matter, the shortest of parallel ones counts for paths and all of
        them conduct.
    lengths : Tensor, (edges,), optional
        Positive lengths, or resistances; one by default.
    num_nodes : int, optional
        Number of nodes; by default one more than the largest index.
    kind : {"shortest", "resistance"}
        Lengths of shortest paths; or roots of resistances between nodes, which are distances of a
        Euclidean space: their Gram matrix is the pseudo-inverse of the Laplacian.

    Returns
    -------
    Tensor, (nodes, nodes), float64
        Distances.

    Raises
    ------
    TypeError
        If the indices are not int64.
    ValueError
        If a shape or an index is wrong, a length is not positive, or the graph is not connected:
        there is no distance between its components, which can be embedded one by one.

    References
    ----------
    Klein and Randic, "Resistance distance", 1993.

    Examples
    --------
    >>> path = torch.tensor([[0, 1], [1, 2]])
    >>> graph_distances(path)[0].tolist()
    [0.0, 1.0, 2.0]
    """
    if edge_index.dtype != torch.int64:
        raise TypeError(f"edge_index must be int64, got {edge_index.dtype}")
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise ValueError(f"edge_index must be (2, edges), got {tuple(edge_index.shape)}")
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
    source, target = edge_index.cpu().numpy()
    largest = int(edge_index.max()) + 1 if edge_index.shape[1] else 0
    nodes = largest if num_nodes is None else num_nodes
    if largest > nodes or (edge_index.shape[1] and int(edge_index.min()) < 0):
        raise ValueError(f"edge_index must be from 0 to {nodes - 1}")
    length = np.ones(len(source)) if lengths is None else lengths.detach().cpu().double().numpy()
    if length.shape != source.shape or not (np.isfinite(length) & (length > 0)).all():
        raise ValueError(f"lengths must be ({len(source)},), finite and positive")
    found = (_paths if kind == "shortest" else _roots)(source, target, length, nodes)
    if not np.isfinite(found).all():
        raise ValueError(
            "the graph is not connected: embed its components one by one, "
            f"nodes {np.flatnonzero(~np.isfinite(found[0]))[:5].tolist()} are not reached from 0"
        )
    return torch.from_numpy(found).to(edge_index.device)


def _paths(source: np.ndarray, target: np.ndarray, length: np.ndarray, nodes: int) -> np.ndarray:
    # A sparse matrix adds parallel edges up: keep the shortest.
    low, high = np.minimum(source, target), np.maximum(source, target)
    order = np.lexsort((length, high, low))
    low, high, length = low[order], high[order], length[order]
    first = np.ones(len(low), dtype=bool)
    first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    first &= low != high
    matrix = sparse.coo_matrix((length[first], (low[first], high[first])), (nodes, nodes))
    return csgraph.shortest_path(matrix.tocsr(), directed=False)


def _roots(source: np.ndarray, target: np.ndarray, length: np.ndarray, nodes: int) -> np.ndarray:
    matrix = sparse.coo_matrix((1 / length, (source, target)), (nodes, nodes)).tocsr()
    matrix = matrix + matrix.T
    matrix.setdiag(0)
    if csgraph.connected_components(matrix, directed=False)[0] > 1:
        _, labels = csgraph.connected_components(matrix, directed=False)
        return np.where(labels[:, None] == labels, 0.0, np.inf)
    inverse = np.linalg.pinv(csgraph.laplacian(matrix).toarray(), hermitian=True)
    diagonal = np.diag(inverse)
    resistance = diagonal[:, None] + diagonal - inverse - inverse.T
    np.fill_diagonal(resistance, 0)
    return np.sqrt(np.maximum(resistance, 0))
