"""Surface of a primal-dual graph, kept to recompute features after deformation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs.brief_repr import brief_repr
from equigeo.mesh.geometry.half_edges import edge_pairs
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh


@dataclass(frozen=True, eq=False, repr=False)
class Surface:
    """Positions, faces and shared edges of one mesh or of a batch of meshes."""

    vertices: Tensor  # (vertices, 3) float64
    faces: Tensor  # (faces, 3)
    pairs: Tensor  # (pairs, 2) twin half-edges, lower face first, sorted by faces
    pair_to_edge: Tensor  # (pairs,): two faces with two shared edges have one adjacency
    num_edges: int  # number of adjacent pairs of faces
    vertex_batch: Tensor  # (vertices,)
    face_batch: Tensor  # (faces,)
    num_meshes: int = 1

    __repr__ = brief_repr

    @classmethod
    def from_mesh(cls, mesh: TriangleMesh, pairs: Tensor | None = None) -> Surface:
        """Build a surface from a mesh and, if known, its :func:`edge_pairs`."""
        # Pairs are sorted by their two faces, so that several edges of two faces follow each other
        # and an adjacency begins wherever the faces change.
        pairs = edge_pairs(mesh) if pairs is None else pairs
        adjacent = pairs // 3
        differs = (adjacent[1:] != adjacent[:-1]).any(dim=1)
        pair_to_edge = torch.zeros(len(pairs), dtype=torch.int64, device=pairs.device)
        torch.cumsum(differs, dim=0, out=pair_to_edge[1:])
        return cls(
            vertices=mesh.vertices,
            faces=mesh.faces,
            pairs=pairs,
            pair_to_edge=pair_to_edge,
            num_edges=int(pair_to_edge[-1]) + 1 if len(pairs) else 0,
            vertex_batch=mesh.faces.new_zeros(mesh.num_vertices),
            face_batch=mesh.faces.new_zeros(mesh.num_faces),
        )

    @classmethod
    def batch(cls, parts: Sequence[Surface]) -> Surface:
        """Return the disjoint union with shifted vertex, face and edge indices."""
        vertices = faces = edges = meshes = 0
        shifted = []
        for part in parts:
            shifted.append(
                replace(
                    part,
                    faces=part.faces + vertices,
                    pairs=part.pairs + 3 * faces,
                    pair_to_edge=part.pair_to_edge + edges,
                    vertex_batch=part.vertex_batch + meshes,
                    face_batch=part.face_batch + meshes,
                )
            )
            vertices += len(part.vertices)
            faces += len(part.faces)
            edges += part.num_edges
            meshes += part.num_meshes
        return cls(
            vertices=torch.cat([part.vertices for part in shifted]),
            faces=torch.cat([part.faces for part in shifted]),
            pairs=torch.cat([part.pairs for part in shifted]),
            pair_to_edge=torch.cat([part.pair_to_edge for part in shifted]),
            num_edges=edges,
            vertex_batch=torch.cat([part.vertex_batch for part in shifted]),
            face_batch=torch.cat([part.face_batch for part in shifted]),
            num_meshes=meshes,
        )

    def edges(self) -> Tensor:
        """Return sorted adjacent pairs of faces (num_edges, 2), lower face first."""
        first = torch.ones(len(self.pairs), dtype=torch.bool, device=self.pairs.device)
        first[1:] = self.pair_to_edge[1:] != self.pair_to_edge[:-1]
        return self.pairs[first] // 3

    def mean_over_edges(
        self,
        x: Tensor,  # (pairs, channels)
    ) -> Tensor:
        """Average rows of twin pairs over the edges that two faces share, (num_edges, channels)."""
        if self.num_edges == len(self.pairs):
            return x
        total = x.new_zeros(self.num_edges, x.shape[1]).index_add(0, self.pair_to_edge, x)
        return total / torch.bincount(self.pair_to_edge, minlength=self.num_edges)[:, None]

    def jitter(
        self,
        scale: float,  # standard deviation in mean edge lengths
        generator: torch.Generator | None = None,
    ) -> Surface:
        """Move every vertex by a normal deviate."""
        corner = self.vertices[self.faces]
        length = torch.linalg.vector_norm(corner.roll(-1, dims=1) - corner, dim=-1).mean(dim=1)
        total = length.new_zeros(self.num_meshes).index_add(0, self.face_batch, length)
        mean = total / torch.bincount(self.face_batch, minlength=self.num_meshes).clamp_min(1)
        # Drawn in float32 on the CPU: the same numbers whatever the dtype and the device.
        noise = torch.randn(self.vertices.shape, generator=generator, dtype=torch.float32)
        step = (scale * mean)[self.vertex_batch, None] * noise.to(self.vertices)
        return replace(self, vertices=self.vertices + step)

    def stretch(
        self,
        scale: float,  # standard deviation of the diagonal of S before its trace is removed
        generator: torch.Generator | None = None,
    ) -> Surface:
        """Multiply the positions of every mesh by exp(S), S a random symmetric traceless matrix."""
        # As in jitter, the same numbers whatever the dtype and the device.
        # No trace: volumes are unchanged. The distribution is isotropic.
        drawn = torch.randn(self.num_meshes, 3, 3, generator=generator, dtype=torch.float32)
        # Independent entries of the same deviation, made symmetric: those on the diagonal keep it,
        # the mean of two others has one that is smaller by the square root of 2.
        symmetric = scale * (drawn + drawn.mT).to(self.vertices) / 2
        trace = symmetric.diagonal(dim1=1, dim2=2).mean(dim=1)
        identity = torch.eye(3, dtype=symmetric.dtype, device=symmetric.device)
        factors = torch.linalg.matrix_exp(symmetric - trace[:, None, None] * identity)
        moved = torch.einsum("nij,nj->ni", factors[self.vertex_batch], self.vertices)
        return replace(self, vertices=moved)

    def to(self, device: torch.device | str) -> Surface:
        """Move positions and indices to a device."""
        moved: dict[str, Any]
        moved = {name: x.to(device) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **moved)
