"""What the two faces beside an adjacency have in common, and how they differ."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.ops import gather_sum


def endpoint_features(graph: PrimalDualGraph, x_primal: Tensor) -> Tensor:
    """Sum and absolute difference of the primal features at the ends of each dual node.

    Parameters
    ----------
    graph : PrimalDualGraph
        Which faces each dual node joins.
    x_primal : Tensor, (primal nodes, channels)
        Face features.

    Returns
    -------
    Tensor, (dual nodes, 2 * channels)
        Symmetric in the two ends, so that the order of the faces does not matter.
    """
    ends = graph.undirected.reshape(-1)
    each = torch.arange(len(ends) + 1, device=ends.device)
    edges = graph.primal
    arrives_at = 2 * graph.to_undirected + (edges.target > edges.source).long()
    both = gather_sum(x_primal, ends, each, arrives_at, edges.ptr).unflatten(0, (-1, 2))
    lower, higher = both.unbind(1)
    symmetric = torch.cat((lower + higher, (lower - higher).abs()), dim=1)
    if graph.dual is DualKind.SINGLE:
        return symmetric
    return symmetric.repeat_interleave(2, dim=0)
