"""Connected components of a graph, for tensors on a device and for NumPy arrays."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csgraph
from torch import Tensor


def connected_components(
    pairs: Tensor,  # (pairs, 2) undirected edges
    num_nodes: int,
) -> Tensor:
    """Number the connected components in the order of their smallest members, (num_nodes,)."""
    # Shiloach and Vishkin, "An O(log n) parallel connectivity algorithm", 1982.
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
    """Follow labels to their roots; each step halves the length of every path."""
    while True:
        jumped = label[label]
        if torch.equal(jumped, label):
            return label
        label = jumped


def connected_components_numpy(
    source: NDArray[np.int64],  # (edges,); edges may repeat
    target: NDArray[np.int64],
    num_nodes: int,
) -> NDArray[np.int64]:
    """Return the connected component of each node, by SciPy."""
    entries = (np.ones(len(source), np.int8), (source, target))
    graph = coo_array(entries, shape=(num_nodes, num_nodes))
    return csgraph.connected_components(graph, directed=False)[1].astype(np.int64)
