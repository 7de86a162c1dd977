"""Which adjacencies to contract: the best ones of each mesh, or those without common faces.

Neither choice depends on the order of the faces: equal scores are never told apart by numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor


def select_top(scores: Tensor, batch: Tensor, quota: Tensor, *, window: float = 1e-5) -> Tensor:
    """Mark the highest scores of each mesh, without splitting a group of equals.

    The cut retreats from the quota to the widest gap between neighbouring scores, over all scores
    within ``window`` of the first one beyond the quota. So a tied group at the quota stays
    uncontracted as a whole, and neither the numbering of faces nor rounding decides; where scores
    are dense everywhere, only those within the window are given up.

    Parameters
    ----------
    scores : Tensor, (edges,), floating
        Higher is contracted first.
    batch : Tensor, (edges,), int64
        Mesh of each edge, ascending.
    quota : Tensor, (meshes,), int64
        How many edges of each mesh may be marked.
    window : float
        How far above the first score beyond the quota the cut may retreat.

    Returns
    -------
    Tensor, (edges,), bool
        At most ``quota`` marks per mesh.

    Equivariance
    ------------
    Permuting the edges of a mesh permutes the marks.

    Examples
    --------
    >>> scores = torch.tensor([0.9, 0.5, 0.5, 0.1])
    >>> select_top(scores, torch.zeros(4, dtype=torch.int64), torch.tensor([2])).tolist()
    [True, False, False, False]
    """
    if not len(scores):
        return torch.zeros(0, dtype=torch.bool, device=scores.device)
    scores = scores.detach().double()
    order = torch.argsort(scores, descending=True, stable=True)
    order = order[torch.argsort(batch[order], stable=True)]
    ordered, mesh = scores[order], batch[order]
    rank = _rank(mesh, len(quota))
    gap = torch.full_like(ordered, torch.inf)  # above each score; nothing is above the first
    gap[1:] = torch.where(mesh[1:] == mesh[:-1], ordered[:-1] - ordered[1:], torch.inf)
    beyond = rank == quota[mesh]
    anchor = torch.full_like(quota, torch.inf, dtype=ordered.dtype)
    anchor[mesh[beyond]] = ordered[beyond]
    # Candidates for the cut lie between the quota and the window above the first score beyond it.
    near = (rank <= quota[mesh]) & (ordered - anchor[mesh] <= window)
    widest = torch.zeros_like(anchor).scatter_reduce(0, mesh[near], gap[near], "amax")
    here = near & (gap == widest[mesh])
    cut = torch.zeros_like(quota).scatter_reduce(0, mesh[here], rank[here], "amax")
    cut = torch.where(anchor.isinf(), quota, cut)  # a quota that takes all scores cuts nowhere
    marked = torch.empty(len(order), dtype=torch.bool, device=scores.device)
    marked[order] = rank < cut[mesh]
    return marked


def _rank(mesh: Tensor, num_meshes: int) -> Tensor:
    """Position of each entry of an ascending vector within its run."""
    counts = torch.bincount(mesh, minlength=num_meshes)
    start = torch.cumsum(counts, 0) - counts
    return torch.arange(len(mesh), device=mesh.device) - start[mesh]


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
        # An edge is accepted if at both ends it is the only one of the highest score there.
        rivals = torch.bincount(undirected[alive & is_best[:, 0], 0], minlength=num_nodes)
        rivals += torch.bincount(undirected[alive & is_best[:, 1], 1], minlength=num_nodes)
        accepted = alive & (is_best & (rivals[undirected] == 1)).all(dim=1)
        if not bool(accepted.any()):
            break
        marked |= accepted
        free[undirected[accepted]] = False
        alive &= free[undirected].all(dim=1)
    return marked
