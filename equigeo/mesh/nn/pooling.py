"""Pooling by contraction of the adjacencies with the largest attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn

from equigeo._core.checks import as_tensor, check_shape, kind_of, takes_integers
from equigeo.mesh.geometry.connectivity import smallest_connected
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph, check_graph
from equigeo.mesh.nn.contraction import Aggregation, contract, dominant_matching, select_top

# Scores that differ by less are equal: rounding depends on the order of faces. A score is a mean of
# softmax weights below 1, each with a few roundings of float32, 2**-24.
_GRID = 2**20


@takes_integers
class EdgePool(nn.Module):
    """Contract the adjacencies with the largest attention and merge faces into clusters.

    Exactly one of ``keep``, ``num_to_keep`` and ``threshold`` must be given. The choice of
    adjacencies carries no gradient; merged features do. Permuting faces permutes clusters. A group
    of equal scores that the quota would split is kept.

    Parameters
    ----------
    keep : float, optional
        Share of the adjacencies of each mesh to keep. A closed mesh has three adjacencies for two
        faces: 0.8 keeps about 70 % of its nodes.
    num_to_keep : int, optional
        Number of adjacencies of each mesh to keep.
    threshold : float, optional
        Contract every adjacency with a larger score.
    aggregation : {"mean", "sum", "area"}
        How features of merged nodes combine; ``"area"`` is the area-weighted mean.
    allow_consecutive : bool
        Whether two contracted adjacencies may share a face. If not, clusters have at most two.
    max_cluster_size, max_degree : int, optional
        Maximum faces and maximum neighbors of a cluster.

    Examples
    --------
    >>> EdgePool(keep=0.8)
    EdgePool(keep=0.8, aggregation='mean', max_degree=64)
    """

    def __init__(
        self,
        keep: float | None = None,
        *,
        num_to_keep: int | None = None,
        threshold: float | None = None,
        aggregation: Aggregation = "mean",
        allow_consecutive: bool = True,
        max_cluster_size: int | None = None,
        max_degree: int | None = 64,
    ) -> None:
        super().__init__()
        if sum(value is not None for value in (keep, num_to_keep, threshold)) != 1:
            raise ValueError("give exactly one of keep, num_to_keep and threshold")
        if keep is not None and not 0 <= keep <= 1:
            raise ValueError(f"keep must lie in [0, 1], got {keep}")
        if num_to_keep is not None and num_to_keep < 0:
            raise ValueError(f"num_to_keep must not be negative, got {num_to_keep}")
        if threshold is not None and not threshold == threshold:
            raise ValueError("threshold must be a number, got NaN")
        if min(max_cluster_size or 1, max_degree if max_degree is not None else 1) < 1:
            raise ValueError(
                f"caps must be positive, got {max_cluster_size} faces and {max_degree} neighbours"
            )
        if aggregation not in get_args(Aggregation):
            raise ValueError(
                f"aggregation must be one of {get_args(Aggregation)}, got {aggregation!r}"
            )
        self.keep, self.num_to_keep, self.threshold = keep, num_to_keep, threshold
        self.aggregation: Aggregation = aggregation
        self.allow_consecutive = allow_consecutive
        self.max_cluster_size, self.max_degree = max_cluster_size, max_degree

    def forward(self, graph: PrimalDualGraph, attention: Tensor) -> tuple[PrimalDualGraph, PoolLog]:
        """Pool a graph by the attention (primal edges, heads) of its last convolution.

        Return the graph over clusters, which is ``graph`` itself if nothing was contracted, and the
        log for :func:`equigeo.mesh.unpool`.
        """
        check_graph(graph)
        if torch.compiler.is_exporting():
            raise NotImplementedError(
                "EdgePool cannot be exported, as the merged adjacencies depend on values: train a "
                "model without pooling, with keep=(None, ...)"
            )
        attention = as_tensor(attention, "attention")
        check_shape(attention, "attention", (graph.primal.num_edges, "heads"))
        if attention.is_complex():
            raise TypeError(f"attention must be real, got {attention.dtype}")
        if attention.device != graph.undirected.device:
            raise ValueError(
                f"attention must be on {graph.undirected.device} as the graph is, "
                f"got {attention.device}"
            )
        scores = edge_scores(graph, attention)
        ranking = (scores * _GRID).round() / _GRID
        marked, quota = self._select(graph, scores, ranking)
        marked = limit_clusters(
            graph.undirected,
            marked,
            ranking,
            graph.num_primal,
            max_cluster_size=self.max_cluster_size,
            max_degree=self.max_degree,
        )
        pooled, cluster, dual_to_new = contract(graph, marked, self.aggregation)
        contracted = int(marked.sum())
        return pooled, PoolLog(graph, cluster, dual_to_new, contracted, quota - contracted)

    def _select(
        self, graph: PrimalDualGraph, scores: Tensor, ranking: Tensor
    ) -> tuple[Tensor, int]:
        """Return the marks before the limits, and the number that the criterion requested."""
        free = torch.ones_like(scores, dtype=torch.bool)
        if not self.allow_consecutive:
            free = dominant_matching(graph.undirected, ranking, graph.num_primal)
        if self.threshold is not None:
            above = scores > self.threshold
            return above & free, int(above.sum())
        batch = graph.primal_batch[graph.undirected[:, 0]]
        count = torch.bincount(batch, minlength=graph.num_graphs)
        if self.keep is not None:  # the offset keeps (1 - 13/21) * 21 from rounding below 8
            quota = ((1 - self.keep) * count.double() + 1e-9).floor().long()
        else:
            quota = (count - (self.num_to_keep or 0)).clamp_min(0)
        marked = torch.zeros_like(free)
        marked[free] = select_top(ranking[free], batch[free], quota)
        return marked, int(quota.sum())

    def extra_repr(self) -> str:
        names = ("keep", "num_to_keep", "threshold", "aggregation", "max_cluster_size")
        given = {
            n: getattr(self, n) for n in (*names, "max_degree") if getattr(self, n) is not None
        }
        if not self.allow_consecutive:
            given["allow_consecutive"] = False
        return ", ".join(f"{name}={value!r}" for name, value in given.items())


def edge_scores(
    graph: PrimalDualGraph,
    attention: Tensor,  # (primal edges, heads)
) -> Tensor:
    """Average attention over heads and both directions per adjacency, (adjacencies,) float64."""
    each = attention.detach().double().mean(dim=1)
    total = each.new_zeros(len(graph.undirected)).index_add(0, graph.to_undirected, each)
    return total / 2


def limit_clusters(
    undirected: Tensor,  # (edges, 2) adjacent nodes
    marked: Tensor,  # (edges,) requested contractions
    scores: Tensor,  # (edges,), higher first
    num_nodes: int,
    *,
    max_cluster_size: int | None = None,
    max_degree: int | None = None,  # largest number of neighboring clusters
) -> Tensor:
    """Unmark the weakest quarter of contractions in clusters beyond a limit, until none is left."""
    # Which contractions of a cluster to undo is decided among its own, by rank: a threshold on
    # scores would depend on the other clusters. Every round unmarks at least one, so it ends.
    # A cluster with d neighbors has d (d - 1) dual links, so that a few hubs can dominate a mesh.
    if max_cluster_size is None and max_degree is None:
        return marked
    scores, marked = scores.detach().double(), marked.clone()
    cluster = smallest_connected(undirected[marked], num_nodes)  # numbered by a member
    while True:
        oversized = _oversized(cluster, undirected, max_cluster_size, max_degree)
        inside = (marked & oversized[cluster[undirected[:, 0]]]).nonzero().squeeze(1)
        if not len(inside):
            return marked
        owner, ranks = cluster[undirected[inside, 0]], scores[inside]
        kept = ranks > _lower_quartile(ranks, owner, num_nodes)
        marked[inside] = kept
        parts = smallest_connected(undirected[inside[kept]], num_nodes)
        cluster = torch.where(oversized[cluster], parts, cluster)  # the others are as before


def _oversized(
    cluster: Tensor, undirected: Tensor, max_cluster_size: int | None, max_degree: int | None
) -> Tensor:
    size = torch.bincount(cluster, minlength=len(cluster))
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


@dataclass(frozen=True, eq=False, repr=False)
class PoolLog:
    """Graph before pooling by :class:`equigeo.mesh.EdgePool`, and the cluster of each node.

    Parameters
    ----------
    graph : PrimalDualGraph
        Before pooling.
    cluster : Tensor, (primal nodes before,), int64
        Cluster of each primal node; clusters are numbered by their smallest member.
    dual_to_new : Tensor, (dual nodes before,), int64
        Dual node after pooling, or -1 inside a cluster.
    num_contracted, num_refused : int
        Contracted adjacencies, and those within the quota that were kept because of a tie, a cap
        or ``allow_consecutive=False``.

    Examples
    --------
    >>> from equigeo.mesh import TriangleMesh
    >>> graph = PrimalDualGraph.from_mesh(TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]])))
    >>> EdgePool(keep=0.5)(graph, torch.rand(0, 1))[1]
    PoolLog(faces=1, clusters=1, contracted=0, refused=0)
    """

    graph: PrimalDualGraph
    cluster: Tensor
    dual_to_new: Tensor
    num_contracted: int
    num_refused: int

    def __repr__(self) -> str:
        clusters = int(self.cluster.max()) + 1 if len(self.cluster) else 0
        return (
            f"PoolLog(faces={len(self.cluster)}, clusters={clusters}, "
            f"contracted={self.num_contracted}, refused={self.num_refused})"
        )


def unpool(
    log: PoolLog, x_primal: Tensor, x_dual: Tensor, fill: Tensor
) -> tuple[PrimalDualGraph, Tensor, Tensor]:
    """Copy cluster features back to the nodes that were merged.

    Commutes with permutations of clusters and of faces.

    Parameters
    ----------
    log : PoolLog
        From :class:`equigeo.mesh.EdgePool`.
    x_primal : Tensor, (clusters, channels)
        Features of clusters.
    x_dual : Tensor, (dual nodes after pooling, channels)
        Features of their adjacencies.
    fill : Tensor, (channels,)
        Feature of dual nodes inside a cluster, usually a learnt vector.

    Returns
    -------
    graph : PrimalDualGraph
        The graph before pooling.
    x_primal, x_dual : Tensor, (nodes before, channels)
        Features of its nodes.

    Examples
    --------
    >>> import trimesh
    >>> from equigeo.mesh import TriangleMesh
    >>> graph = PrimalDualGraph.from_mesh(TriangleMesh.from_trimesh(trimesh.creation.box()))
    >>> pooled, log = EdgePool(keep=0.5)(graph, torch.rand(graph.primal.num_edges, 1))
    >>> unpool(log, pooled.x_primal, pooled.x_dual, torch.zeros(8))[1].shape
    torch.Size([12, 1])
    """
    if not isinstance(log, PoolLog):
        raise TypeError(f"log must be a PoolLog, got {kind_of(log)}")
    x_primal, x_dual = as_tensor(x_primal, "x_primal"), as_tensor(x_dual, "x_dual")
    fill = as_tensor(fill, "fill")
    check_shape(x_primal, "x_primal", ("clusters", "channels"))
    check_shape(x_dual, "x_dual", ("adjacencies", "channels"))
    if fill.numel() != x_dual.shape[1]:
        raise ValueError(f"fill must be ({x_dual.shape[1]},), got {tuple(fill.shape)}")
    # -1 marks pairs that vanished inside a cluster; clamped to 0 they copy some row, which the fill
    # replaces below. Gradients then reach the fill and no wrong row. The gradient of indexing would
    # be summed in another order in each call where there are several threads.
    survives = (log.dual_to_new >= 0)[:, None]
    if len(x_dual):
        copied = x_dual.index_select(0, log.dual_to_new.clamp_min(0))
    else:
        copied = x_dual.new_zeros(len(log.dual_to_new), fill.shape[-1])
    of_faces = x_primal.index_select(0, log.cluster)
    return log.graph, of_faces, torch.where(survives, copied, fill.reshape(1, -1))
