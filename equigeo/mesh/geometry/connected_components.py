"""Connected components of a graph: of tensors on their device, and of arrays read from a file."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csgraph
from torch import Tensor


def connected_components(pairs: Tensor, num_nodes: int) -> Tensor:
    """Number the connected components by their smallest member, on the device of the edges.

    Every round hooks each root to the smallest label beside it and then jumps pointers to a fixed
    point; a handful of rounds suffices on meshes, and the number is logarithmic at worst.

    Parameters
    ----------
    pairs : Tensor, (pairs, 2), int64
        Undirected edges.
    num_nodes : int
        Number of nodes.

    Returns
    -------
    Tensor, (num_nodes,), int64
        Component of each node, numbered 0, 1, ... in the order of their smallest members.

    References
    ----------
    Shiloach and Vishkin, "An O(log n) parallel connectivity algorithm", 1982.

    Examples
    --------
    >>> connected_components(torch.tensor([[3, 1], [4, 3]]), 5).tolist()
    [0, 1, 2, 1, 1]
    """
    label = torch.arange(num_nodes, device=pairs.device)
    while len(pairs):
        ends = label[pairs]
        joined = ends[:, 0] != ends[:, 1]
        if not bool(joined.any()):
            break
        # Edges inside a component never part again, so only the others enter the next round.
        pairs, ends = pairs[joined], ends[joined]
        smallest = torch.minimum(ends[:, 0], ends[:, 1]).repeat_interleave(2)
        label = label.scatter_reduce(0, ends.reshape(-1), smallest, "amin")
        label = _jump(label)
    return torch.unique(label, return_inverse=True)[1]


def _jump(label: Tensor) -> Tensor:
    """Follow labels to their roots; the length of a path halves with every step."""
    while True:
        jumped = label[label]
        if torch.equal(jumped, label):
            return label
        label = jumped


def connected_components_numpy(
    source: NDArray[np.int64], target: NDArray[np.int64], num_nodes: int
) -> NDArray[np.int64]:
    """Number the connected components of arrays, by SciPy's traversal.

    Parameters
    ----------
    source, target : ndarray, (edges,), int64
        Ends of each undirected edge; edges may repeat.
    num_nodes : int
        Number of nodes, with or without an edge.

    Returns
    -------
    ndarray, (num_nodes,), int64
        Component of each node.

    Examples
    --------
    >>> connected_components_numpy(np.array([0, 3]), np.array([2, 0]), 4)
    array([0, 1, 0, 0])
    """
    entries = (np.ones(len(source), np.int8), (source, target))
    graph = coo_array(entries, shape=(num_nodes, num_nodes))
    return csgraph.connected_components(graph, directed=False)[1].astype(np.int64)
