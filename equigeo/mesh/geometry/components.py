"""Connected components of a graph, without a loop over nodes or edges."""

from __future__ import annotations

import torch
from torch import Tensor


def connected_components(pairs: Tensor, num_nodes: int) -> Tensor:
    """Number the connected components by their smallest member.

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
        pairs, ends = pairs[joined], ends[joined]
        smallest = torch.minimum(ends[:, 0], ends[:, 1]).repeat_interleave(2)
        label = label.scatter_reduce(0, ends.reshape(-1), smallest, "amin")
        label = _jump(label)
    return torch.unique(label, return_inverse=True)[1]


def _jump(label: Tensor) -> Tensor:
    while True:
        jumped = label[label]
        if torch.equal(jumped, label):
            return label
        label = jumped
