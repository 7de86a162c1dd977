"""Contraction of marked adjacencies in both graphs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.mesh.geometry.connectivity import connected_components
from equigeo.mesh.geometry.dual_graph import DualKind
from equigeo.mesh.geometry.features import AreaShares
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph

Aggregation = Literal["mean", "sum", "area"]

_WINDOW = 1e-5  # range of scores above the quota in which the cut may lie
_BLOCKED, _USED = 1, 2  # an end with an edge that is never decided, and one of an accepted edge


def contract(
    graph: PrimalDualGraph,
    marked: Tensor,  # (adjacencies,) bool
    aggregation: Aggregation = "mean",  # "area": mean weighted by area shares
) -> tuple[PrimalDualGraph, Tensor, Tensor]:
    """Merge the ends of marked adjacencies; return the graph and the new primal and dual nodes."""
    if not bool(marked.any()):
        device = marked.device
        nodes = torch.arange(graph.num_primal, device=device)
        return graph, nodes, torch.arange(graph.num_dual, device=device)
    # Adjacencies between the same two clusters merge; those inside a cluster vanish (-1).
    cluster = connected_components(graph.undirected[marked], graph.num_primal)
    count = int(cluster.max()) + 1
    undirected, to_new, flipped = _merge_adjacencies(cluster[graph.undirected], count)
    batch = graph.primal_batch.new_zeros(count).index_put((cluster,), graph.primal_batch)
    pooled = PrimalDualGraph.from_adjacency(
        undirected, graph.dual, batch, graph.num_graphs, features=graph.features
    )
    dual_to_new = _dual_to_new(graph.dual, to_new, flipped)
    known = graph.shares
    shares = (None, None) if known is None else (known.primal, known.dual)
    x_primal, primal = _aggregate(
        graph.x_primal, shares[0], cluster, pooled.num_primal, aggregation
    )
    x_dual, dual = _aggregate(graph.x_dual, shares[1], dual_to_new, pooled.num_dual, aggregation)
    if primal is not None and dual is not None:
        pooled = replace(pooled, shares=AreaShares(primal, dual))
    return pooled.with_features(x_primal, x_dual), cluster, dual_to_new


def _merge_adjacencies(ends: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return distinct pairs of clusters, the new adjacency per old one, and whether it flipped."""
    # Clusters are numbered by their smallest face, so the end with the lower face may well lie in
    # the cluster with the higher number: then the adjacency turns.
    lower, higher = torch.minimum(*ends.unbind(1)), torch.maximum(*ends.unbind(1))
    survives = lower != higher
    keys, inverse = torch.unique(lower[survives] * count + higher[survives], return_inverse=True)
    to_new = torch.full_like(lower, -1)
    to_new[survives] = inverse
    return torch.stack((keys // count, keys % count), dim=1), to_new, ends[:, 0] > ends[:, 1]


def _dual_to_new(kind: DualKind, to_new: Tensor, flipped: Tensor) -> Tensor:
    if kind is DualKind.SINGLE:
        return to_new
    # Nodes 2u and 2u + 1 run from the lower to the higher end and back; turned, they change roles.
    direction = torch.stack((flipped, ~flipped), dim=1).long()
    both = torch.where(to_new[:, None] < 0, -1, 2 * to_new[:, None] + direction)
    return both.reshape(-1)


def _aggregate(
    x: Tensor, share: Tensor | None, to_new: Tensor, count: int, aggregation: Aggregation
) -> tuple[Tensor, Tensor | None]:
    """Combine the rows with the same new index and sum their area shares; drop index -1."""
    source = torch.nonzero(to_new >= 0).squeeze(1)
    edges = EdgeIndex.from_valid_edges(torch.stack((source, to_new[source])), len(x), count)
    total_share = None if share is None else edges.sum(share[:, None]).squeeze(1)
    if aggregation == "sum":
        return edges.sum(x), total_share
    number = edges.ptr.diff()
    if aggregation == "mean":
        return edges.sum(x) / number[:, None].to(x.dtype), total_share
    if share is None or total_share is None:
        raise ValueError("a graph of adjacencies alone has no areas to weigh its features by")
    # Rows without area among themselves count alike.
    known = total_share > 0
    weight = share[source] / torch.where(known, total_share, 1.0)[to_new[source]]
    weight = torch.where(known[to_new[source]], weight, 1 / number[to_new[source]].to(share.dtype))
    weights = torch.zeros_like(share).index_put((source,), weight)
    return edges.sum(x * weights[:, None].to(x.dtype)), total_share


def select_top(
    scores: Tensor,  # (edges,)
    batch: Tensor,  # (edges,) mesh of each edge, ascending
    quota: Tensor,  # (meshes,)
) -> Tensor:
    """Mark at most ``quota`` highest scores per mesh without splitting groups of equal scores."""
    if not len(scores):
        return torch.zeros(0, dtype=torch.bool, device=scores.device)
    scores = scores.detach().double()
    order = _descending(scores)
    if len(quota) > 1:
        order = order[torch.argsort(batch[order], stable=True)]
    ordered, mesh = scores[order], batch[order]
    rank = _rank(mesh, len(quota))
    # Scores that differ by rounding must not be separated, and face numbers must not decide between
    # ties. With scores s_0 >= s_1 >= ... of a mesh the cut is at the widest gap within the window,
    #
    #     cut = argmax (s_{r-1} - s_r)  over  r <= quota  with  s_r - s_quota <= window,
    #
    # the last one of equal gaps.
    gap = torch.full_like(ordered, torch.inf)  # above each score; nothing is above the first
    gap[1:] = torch.where(mesh[1:] == mesh[:-1], ordered[:-1] - ordered[1:], torch.inf)
    first_rejected = torch.full_like(quota, torch.inf, dtype=ordered.dtype)
    is_first_rejected = rank == quota[mesh]
    first_rejected[mesh[is_first_rejected]] = ordered[is_first_rejected]
    is_candidate = (rank <= quota[mesh]) & (ordered - first_rejected[mesh] <= _WINDOW)
    widest = torch.zeros_like(first_rejected)
    widest = widest.scatter_reduce(0, mesh[is_candidate], gap[is_candidate], "amax")
    is_widest = is_candidate & (gap == widest[mesh])
    cut = torch.zeros_like(quota).scatter_reduce(0, mesh[is_widest], rank[is_widest], "amax")
    cut = torch.where(first_rejected.isinf(), quota, cut)  # a quota of all scores cuts nowhere
    marked = torch.empty(len(order), dtype=torch.bool, device=scores.device)
    marked[order] = rank < cut[mesh]
    return marked


def _descending(scores: Tensor) -> Tensor:
    """Return the stable descending order of float64 scores; sorting integers is 3x faster."""
    # The bits of a float, read as an integer, rise with it; those of a negative one fall. Adding
    # zero makes -0 equal to 0, and NaN comes first, as PyTorch has it.
    bits = (scores + 0.0).view(torch.int64)
    keys = bits ^ ((bits >> 63) & torch.iinfo(torch.int64).max)
    keys = torch.where(scores.isnan(), torch.iinfo(torch.int64).max, keys)
    return torch.argsort(keys.bitwise_not_(), stable=True)


def _rank(mesh: Tensor, num_meshes: int) -> Tensor:
    """Return the position of each entry of an ascending vector within its run."""
    counts = torch.bincount(mesh, minlength=num_meshes)
    start = torch.cumsum(counts, 0) - counts
    return torch.arange(len(mesh), device=mesh.device) - start[mesh]


def dominant_matching(
    undirected: Tensor,  # (edges, 2)
    scores: Tensor,  # (edges,), higher first
    num_nodes: int,
) -> Tensor:
    """Mark edges without common ends greedily by score; equal neighbors block each other."""
    scores = scores.detach().double()
    # Of equal neighbors none is accepted, and both live on and outrank what is below them for
    # good: what could use up their ends is below them as well. So their ends are blocked.
    order = _descending(scores)
    sizes = torch.unique_consecutive(scores[order], return_counts=True)[1].tolist()
    pairs = undirected[order].tolist()
    state = bytearray(num_nodes)
    for end in undirected[scores.isnan()].reshape(-1).tolist():
        state[end] = _BLOCKED
    accepted: list[int] = []
    start = 0
    for size in sizes:
        group = range(start, start + size)
        start += size
        alive = [k for k in group if _USED not in (state[pairs[k][0]], state[pairs[k][1]])]
        # No higher edge blocks an end, and no equal edge shares it.
        met = Counter(end for k in alive for end in pairs[k])
        chosen = [k for k in alive if not any(state[end] or met[end] > 1 for end in pairs[k])]
        for k in alive:
            for end in pairs[k]:
                state[end] = _BLOCKED
        for k in chosen:
            state[pairs[k][0]] = state[pairs[k][1]] = _USED
        accepted += chosen
    marked = torch.zeros(len(order), dtype=torch.bool)
    marked[order.cpu()[accepted]] = True
    return marked.to(undirected.device)
