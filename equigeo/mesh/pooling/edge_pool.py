"""Pooling by contraction of the adjacencies with the largest attention."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.graphs.inputs import as_tensor, check_shape
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph, check_graph
from equigeo.mesh.pooling.cluster_limits import limit_clusters
from equigeo.mesh.pooling.contraction import Aggregation, contract
from equigeo.mesh.pooling.edge_selection import dominant_matching, select_top
from equigeo.mesh.pooling.unpool import PoolLog


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
        Maximum faces and maximum neighbours of a cluster.

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
        """Arguments that differ from their defaults."""
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


# Scores that differ by less are equal: rounding depends on the order of faces. A score is a mean of
# softmax weights below 1, each with a few roundings of float32, 2**-24.
_GRID = 2**20
