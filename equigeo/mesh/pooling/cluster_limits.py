"""Limits on the size and degree of clusters."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.mesh.geometry.connected_components import connected_components


def limit_clusters(
    undirected: Tensor,  # (edges, 2) adjacent nodes
    marked: Tensor,  # (edges,) requested contractions
    scores: Tensor,  # (edges,), higher first
    num_nodes: int,
    *,
    max_cluster_size: int | None = None,
    max_degree: int | None = None,  # largest number of neighbouring clusters
) -> Tensor:
    """Unmark the weakest quarter of contractions in clusters beyond a limit, until none is left."""
    # Which contractions of a cluster to undo is decided among its own, by rank: a threshold on
    # scores would depend on the other clusters. Every round unmarks at least one, so it ends.
    # A cluster with d neighbours has d (d - 1) dual links, so that a few hubs can dominate a mesh.
    scores = scores.detach().double()
    while max_cluster_size is not None or max_degree is not None:
        cluster = connected_components(undirected[marked], num_nodes)
        oversized = _oversized(cluster, undirected, max_cluster_size, max_degree)
        inside = marked & oversized[cluster[undirected[:, 0]]]
        if not bool(inside.any()):
            return marked
        owner = cluster[undirected[inside, 0]]
        marked = marked.clone()
        marked[inside] = scores[inside] > _lower_quartile(scores[inside], owner, len(oversized))
    return marked


def _oversized(
    cluster: Tensor, undirected: Tensor, max_cluster_size: int | None, max_degree: int | None
) -> Tensor:
    size = torch.bincount(cluster)
    bad = torch.zeros(len(size), dtype=torch.bool, device=cluster.device)
    if max_cluster_size is not None:
        bad |= size > max_cluster_size
    if max_degree is not None:
        ends = cluster[undirected]
        ends = ends[ends[:, 0] != ends[:, 1]]
        # An upper bound, because parallel edges count twice; as a rule it spares the sort below.
        most = torch.bincount(ends.reshape(-1), minlength=len(size))
        if not bool(((most > max_degree) & (size > 1)).any()):
            return bad
        lower, higher = torch.minimum(*ends.unbind(1)), torch.maximum(*ends.unbind(1))
        keys = torch.unique(lower * len(size) + higher)
        degree = torch.bincount(
            torch.cat((keys // len(size), keys % len(size))), minlength=len(size)
        )
        bad |= (degree > max_degree) & (size > 1)
    return bad


def _lower_quartile(scores: Tensor, owner: Tensor, owners: int) -> Tensor:
    """Return for each entry the lower quartile of the entries with the same owner."""
    # Sorted by owner and by score within an owner; its quartile stands a quarter of the way in.
    order = torch.argsort(scores)
    order = order[torch.argsort(owner[order], stable=True)]
    counts = torch.bincount(owner, minlength=owners)
    quartile = torch.cumsum(counts, 0) - counts + (counts - 1).clamp_min(0) // 4
    return scores[order[quartile.clamp_max(len(order) - 1)]][owner]
