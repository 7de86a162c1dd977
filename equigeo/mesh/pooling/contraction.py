"""Contraction of marked adjacencies in both graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.mesh.geometry.area_shares import AreaShares
from equigeo.mesh.geometry.connected_components import connected_components
from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph

Aggregation = Literal["mean", "sum", "area"]


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
    x_primal, primal = _aggregate(
        graph.x_primal, known and known.primal, cluster, pooled.num_primal, aggregation
    )
    x_dual, dual = _aggregate(
        graph.x_dual, known and known.dual, dual_to_new, pooled.num_dual, aggregation
    )
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
