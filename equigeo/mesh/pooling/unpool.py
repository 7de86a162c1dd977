"""Log and inverse of a pooling step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.graphs.inputs import as_tensor, check_shape, kind_of
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph


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
    >>> import trimesh
    >>> from equigeo.mesh import EdgePool, TriangleMesh
    >>> shape = TriangleMesh.from_trimesh(trimesh.creation.icosphere(subdivisions=1))
    >>> graph = PrimalDualGraph.from_mesh(shape)
    >>> EdgePool(num_to_keep=100)(graph, torch.rand(graph.primal.num_edges, 1))[1].cluster.shape
    torch.Size([80])
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
    >>> from equigeo.mesh import EdgePool, PrimalDualGraph, TriangleMesh
    >>> shape = TriangleMesh.from_trimesh(trimesh.creation.icosphere(subdivisions=1))
    >>> graph = PrimalDualGraph.from_mesh(shape)
    >>> pooled, log = EdgePool(keep=0.5)(graph, torch.rand(graph.primal.num_edges, 1))
    >>> before, faces, _ = unpool(log, pooled.x_primal, pooled.x_dual, torch.zeros(8))
    >>> before is graph, len(faces) == graph.num_primal
    (True, True)
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
    # replaces below. Gradients then reach the fill and no wrong row.
    survives = (log.dual_to_new >= 0)[:, None]
    if len(x_dual):
        copied = x_dual[log.dual_to_new.clamp_min(0)]
    else:
        copied = x_dual.new_zeros(len(log.dual_to_new), fill.shape[-1])
    return log.graph, x_primal[log.cluster], torch.where(survives, copied, fill.reshape(1, -1))
