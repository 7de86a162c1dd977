"""Contractions of which no two share a node."""

from __future__ import annotations

import torch
from torch import Tensor


def dominant_matching(undirected: Tensor, scores: Tensor, num_nodes: int) -> Tensor:
    """Mark every edge that outranks all its free neighbours, until no edge can be added.

    Equals walking the ranking from the top and accepting an edge if neither end is used, except
    that equal neighbours block each other instead of being told apart by their numbers.

    Parameters
    ----------
    undirected : Tensor, (edges, 2), int64
        Ends of the edges.
    scores : Tensor, (edges,), floating
        Their ranking, higher first.
    num_nodes : int
        Number of nodes.

    Returns
    -------
    Tensor, (edges,), bool
        Edges without common ends.

    References
    ----------
    Preis, "Linear time 1/2-approximation algorithm for maximum weighted matching", 1999.

    Examples
    --------
    >>> path = torch.tensor([[0, 1], [1, 2], [2, 3]])
    >>> dominant_matching(path, torch.tensor([0.2, 0.9, 0.3]), 4).tolist()
    [False, True, False]
    """
    scores = scores.detach().double()
    marked = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
    free = torch.ones(num_nodes, dtype=torch.bool, device=scores.device)
    alive = marked.logical_not()
    while bool(alive.any()):
        ends = undirected[alive]
        each = scores[alive].repeat_interleave(2)
        best = torch.full((num_nodes,), -torch.inf, dtype=each.dtype, device=each.device)
        best = best.scatter_reduce(0, ends.reshape(-1), each, "amax")
        is_best = scores[:, None] >= best[undirected]
        rivals = torch.bincount(undirected[alive & is_best[:, 0], 0], minlength=num_nodes)
        rivals += torch.bincount(undirected[alive & is_best[:, 1], 1], minlength=num_nodes)
        accepted = alive & (is_best & (rivals[undirected] == 1)).all(dim=1)
        if not bool(accepted.any()):
            break
        marked |= accepted
        free[undirected[accepted]] = False
        alive &= free[undirected].all(dim=1)
    return marked
