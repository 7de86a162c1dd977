"""Attention and clusters of a mesh network in terms of its input faces."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.graphs.inputs import check_shape
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph


@dataclass(frozen=True, eq=False, repr=False)
class Inspection:
    """Attention and clusters of the input faces."""

    attention: tuple[Tensor, ...]  # (faces,) per block
    clusters: tuple[Tensor, ...]  # (faces,) int64 per pooling step

    def __repr__(self) -> str:
        counts = [int(level.max()) + 1 if len(level) else 0 for level in self.clusters]
        faces = len(self.attention[0]) if self.attention else 0
        return f"Inspection(faces={faces}, blocks={len(self.attention)}, clusters={counts})"


def received_attention(
    graph: PrimalDualGraph,
    attention: Tensor,  # (primal edges, heads), summing to 1 over edges into a face
) -> Tensor:
    """Return the attention that each face receives relative to uniform attention, (faces,)."""
    check_shape(attention, "attention", (graph.primal.num_edges, "heads"))
    source, target = graph.primal.edge_index
    zero = attention.new_zeros(graph.num_primal)
    number = torch.bincount(target, minlength=graph.num_primal).to(attention.dtype)
    # r_j = sum_i alpha_{i<-j} / sum_i 1 / d_i, with d_i neighbours of i; 1 without neighbours.
    received = zero.index_add(0, source, attention.mean(dim=1))
    even = zero.index_add(0, source, number.reciprocal()[target])
    return torch.where(even > 0, received / even, 1.0)
