"""Vectors that turn with a mesh: normals of faces, and the steps from face to face."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.mesh.geometry.half_edge_geometry import HalfEdgeGeometry
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph


@dataclass(frozen=True, eq=False)
class FaceVectors:
    """Vectors on the nodes and edges of a primal graph.

    Parameters
    ----------
    normal : Tensor, (primal nodes, 3)
        Unit normals, outwards: vectors, also under reflections.
    step : Tensor, (primal edges, 3)
        From the centroid of the source to that of the target, in units of the root of the mean
        area of a face of their mesh.

    Equivariance
    ------------
    Vectors of O(3); unchanged by translation and scale.
    """

    normal: Tensor
    step: Tensor
    pair_step: Tensor

    @classmethod
    def of(cls, graph: PrimalDualGraph, dtype: torch.dtype) -> FaceVectors:
        """Measure them on the surface of a graph.

        Parameters
        ----------
        graph : PrimalDualGraph
            With its surface, wound outwards.
        dtype : torch.dtype
            Of the result; measured in the dtype of the positions.

        Returns
        -------
        FaceVectors
            Differentiable by the positions.

        Raises
        ------
        ValueError
            If the graph has no surface, as after pooling, or its surface need not be wound
            outwards.

        Examples
        --------
        >>> from equigeo.mesh import TriangleMesh
        >>> corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
        >>> faces = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
        >>> graph = PrimalDualGraph.from_mesh(TriangleMesh(corners, faces))
        >>> FaceVectors.of(graph, torch.float32).normal[0].tolist()
        [0.0, 0.0, -1.0]
        """
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
