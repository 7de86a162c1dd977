"""Equivariant vectors on a mesh: face normals and steps between face centroids."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.mesh.geometry.half_edge_geometry import HalfEdgeGeometry
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph


@dataclass(frozen=True, eq=False)
class FaceVectors:
    """Equivariant vectors on the nodes and edges of a primal graph."""

    normal: Tensor  # (primal nodes, 3): unit, outwards, vectors under reflections too
    step: Tensor  # (primal edges, 3): between centroids, per root mean face area
    pair_step: Tensor  # (undirected edges, 3): from the lower to the higher face

    @classmethod
    def of(cls, graph: PrimalDualGraph, dtype: torch.dtype) -> FaceVectors:
        """Measure the vectors on the outward-wound surface of a graph, differentiably."""
        surface = graph.surface
        if surface is None:
            raise ValueError("vectors are measured on a surface, and a pooled graph has none")
        if graph.features not in ("invariant", "multiscale"):
            raise ValueError(
                "normals are vectors where the mesh is wound outwards, which graphs with features "
                f"'invariant' and 'multiscale' are, got {graph.features!r}"
            )
        geometry = HalfEdgeGeometry.measure(surface.vertices, surface.faces)
        centroid = surface.vertices[surface.faces].mean(1)
        zeros = geometry.area.new_zeros(surface.num_meshes)
        area = zeros.index_add(0, surface.face_batch, geometry.area)
        count = zeros.index_add(0, surface.face_batch, torch.ones_like(geometry.area))
        # A mesh without area has no unit of its own.
        unit = torch.where(area > 0, area / count.clamp_min(1), 1).sqrt()
        place = centroid / unit[surface.face_batch, None]
        lower, higher = graph.undirected.unbind(1)
        return cls(
            normal=geometry.normal.to(dtype),
            step=(place[graph.primal.target] - place[graph.primal.source]).to(dtype),
            pair_step=(place[higher] - place[lower]).to(dtype),
        )
