"""Undoing a pooling step."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.pooling.pool_log import PoolLog


def unpool(
    log: PoolLog, x_primal: Tensor, x_dual: Tensor, fill: Tensor
) -> tuple[PrimalDualGraph, Tensor, Tensor]:
    """Copy cluster features back to the nodes that were merged.

    Parameters
    ----------
    log : PoolLog
        From :class:`equigeo.mesh.EdgePool`.
    x_primal : Tensor, (clusters, channels)
        Features of clusters.
    x_dual : Tensor, (dual nodes after pooling, channels)
        Features of their adjacencies.
    fill : Tensor, (channels,)
        Feature of dual nodes that vanished inside a cluster, usually a learnt vector.

    Returns
    -------
    graph : PrimalDualGraph
        The graph before pooling.
    x_primal : Tensor, (primal nodes, channels)
        Each face gets the feature of its cluster.
    x_dual : Tensor, (dual nodes, channels)
        Each surviving pair the feature of what it merged into, the others ``fill``.

    Equivariance
    ------------
    Commutes with permutations of clusters and of faces.
    """
    survives = (log.dual_to_new >= 0)[:, None]
    if len(x_dual):
        copied = x_dual[log.dual_to_new.clamp_min(0)]
    else:
        copied = x_dual.new_zeros(len(log.dual_to_new), fill.shape[-1])
    return log.graph, x_primal[log.cluster], torch.where(survives, copied, fill.reshape(1, -1))
