"""Distances between the nodes of a graph."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor

from equigeo.graphs.inputs import TensorLike, as_indices, check_shape
from equigeo.mds.distances.gram import real_numbers

_MOST_NODES = 2**16  # all distances between so many take 32 GiB
KINDS = ("shortest", "resistance")


def graph_distances(
    edge_index: TensorLike,
    lengths: TensorLike | None = None,
    *,
    num_nodes: int | None = None,
    kind: str = "shortest",
) -> Tensor:
    """Return distances (nodes, nodes), float64, in a connected graph, for :func:`distance_embed`.

    Parameters
    ----------
    edge_index : Tensor, (2, edges), int64, or ndarray, integer
        Undirected edges. If each is listed with its reverse of the same length, a pair counts as
        one edge. Paths use the shortest of parallel edges; all of them conduct.
    lengths : Tensor, (edges,), optional
        Positive lengths or resistances; 1 by default.
    num_nodes : int, optional
        By default one more than the largest index.
    kind : {"shortest", "resistance"}
        Lengths of shortest paths, or square roots of effective resistances (Klein and Randic,
        "Resistance distance", 1993), which are Euclidean: their Gram matrix is the pseudo-inverse
        of the Laplacian.

    Examples
    --------
    >>> path = torch.tensor([[0, 1], [1, 2]])
    >>> graph_distances(path)[0].tolist()
    [0.0, 1.0, 2.0]
    """
    index = as_indices(edge_index, "edge_index")
    check_shape(index, "edge_index", (2, "edges"))
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
    source, target = index.cpu().numpy()
    largest = int(index.max()) + 1 if index.shape[1] else 0
    nodes = largest if num_nodes is None else num_nodes
    if not 0 <= nodes <= _MOST_NODES:
        raise ValueError(f"the number of nodes must be from 0 to {_MOST_NODES}, got {nodes}")
    if largest > nodes or (index.shape[1] and int(index.min()) < 0):
        raise ValueError(f"edge_index must be from 0 to {nodes - 1}")
    length = np.ones(len(source))
    if lengths is not None:
        length = real_numbers(lengths, "lengths").cpu().numpy()
    if length.shape != source.shape or not (np.isfinite(length) & (length > 0)).all():
        raise ValueError(f"lengths must be ({len(source)},), finite and positive")
    found = (_paths if kind == "shortest" else _roots)(source, target, length, nodes)
    if not np.isfinite(found).all():
        raise ValueError(
            "the graph is not connected: embed its components one by one, "
            f"nodes {np.flatnonzero(~np.isfinite(found[0]))[:5].tolist()} are not reached from 0"
        )
    return torch.from_numpy(found).to(index.device)


def _paths(source: np.ndarray, target: np.ndarray, length: np.ndarray, nodes: int) -> np.ndarray:
    return csgraph.shortest_path(shortest_edges(source, target, length, nodes), directed=False)


def shortest_edges(
    source: np.ndarray, target: np.ndarray, length: np.ndarray, nodes: int
) -> sparse.csr_matrix:
    """Return a matrix with the shortest of parallel edges, for undirected paths."""
    # A sparse matrix would add parallel edges up.
    low, high = np.minimum(source, target), np.maximum(source, target)
    order = np.lexsort((length, high, low))
    low, high, length = low[order], high[order], length[order]
    first = np.ones(len(low), dtype=bool)
    first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    first &= low != high
    return sparse.csr_matrix((length[first], (low[first], high[first])), (nodes, nodes))


def _roots(source: np.ndarray, target: np.ndarray, length: np.ndarray, nodes: int) -> np.ndarray:
    conductance = 1 / length
    there, back = np.stack([source, target, length]), np.stack([target, source, length])
    if np.array_equal(there[:, np.lexsort(there)], back[:, np.lexsort(back)]):
        conductance = conductance / 2  # of an edge that is listed twice
    matrix = sparse.coo_matrix((conductance, (source, target)), (nodes, nodes)).tocsr()
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
