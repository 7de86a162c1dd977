"""The surface behind a primal-dual graph, kept to measure it again after it moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equigeo.graphs.brief_repr import brief_repr
from equigeo.mesh.geometry.half_edges import HalfEdges
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh


@dataclass(frozen=True, eq=False, repr=False)
class Surface:
    """Positions, faces and shared edges of one mesh or of a batch of meshes.

    Parameters
    ----------
    vertices : Tensor, (vertices, 3), float64
        Positions.
    faces : Tensor, (faces, 3), int64
        Triangles.
    pairs : Tensor, (pairs, 2), int64
        Twin half-edges, the side of the lower face first, sorted by the two faces.
    pair_to_edge : Tensor, (pairs,), int64
        Adjacent pair of faces to which the shared edge belongs. Two faces that share two edges
        have two pairs and one adjacency.
    num_edges : int
        Number of adjacent pairs of faces.
    vertex_batch, face_batch : Tensor, (vertices,) and (faces,), int64
        Mesh of each vertex and face.
    num_meshes : int
        Number of meshes.

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> Surface.from_mesh(mesh).num_edges
    0
    """

    vertices: Tensor
    faces: Tensor
    pairs: Tensor
    pair_to_edge: Tensor
    num_edges: int
    vertex_batch: Tensor
    face_batch: Tensor
    num_meshes: int = 1

    __repr__ = brief_repr

    @classmethod
    def from_mesh(cls, mesh: TriangleMesh, half_edges: HalfEdges | None = None) -> Surface:
        """Find the shared edges of a mesh, whose half-edges may be known already.

        Raises
        ------
        MeshError
            If the mesh is non-manifold or inconsistently wound.
        """
        # Pairs are sorted by their two faces, so that several edges of two faces follow each other
        # and an adjacency begins wherever the faces change.
        pairs = (half_edges or HalfEdges.from_mesh(mesh)).pairs()
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
        """Disjoint union: numbers of vertices, faces and edges are shifted past the last part."""
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
        """Adjacent pairs of faces, the lower face first, sorted.

        Returns
        -------
        Tensor, (num_edges, 2), int64
            One row per adjacent pair, however many mesh edges the two faces share.
        """
        first = torch.ones(len(self.pairs), dtype=torch.bool, device=self.pairs.device)
        first[1:] = self.pair_to_edge[1:] != self.pair_to_edge[:-1]
        return self.pairs[first] // 3

    def mean_over_edges(self, x: Tensor) -> Tensor:
        """Average what was measured per twin pair over the edges that two faces share.

        Parameters
        ----------
        x : Tensor, (pairs, channels)
            One row per twin pair.

        Returns
        -------
        Tensor, (num_edges, channels)
            ``x`` itself unless two faces share several edges.
        """
        if self.num_edges == len(self.pairs):
            return x
        total = x.new_zeros(self.num_edges, x.shape[1]).index_add(0, self.pair_to_edge, x)
        return total / torch.bincount(self.pair_to_edge, minlength=self.num_edges)[:, None]

    def jitter(self, scale: float, generator: torch.Generator | None = None) -> Surface:
        """Move every vertex by a normal deviate.

        Parameters
        ----------
        scale : float
            Standard deviation in units of the mean edge length of the vertex's mesh.
        generator : torch.Generator, optional
            Source of the deviates.

        Returns
        -------
        Surface
            The same faces over the moved vertices.
        """
        corner = self.vertices[self.faces]
        length = torch.linalg.vector_norm(corner.roll(-1, dims=1) - corner, dim=-1).mean(dim=1)
        total = length.new_zeros(self.num_meshes).index_add(0, self.face_batch, length)
        mean = total / torch.bincount(self.face_batch, minlength=self.num_meshes).clamp_min(1)
        # Drawn in float32 on the CPU: the same numbers whatever the dtype and the device.
        noise = torch.randn(self.vertices.shape, generator=generator, dtype=torch.float32)
        step = (scale * mean)[self.vertex_batch, None] * noise.to(self.vertices)
        return replace(self, vertices=self.vertices + step)

    def stretch(self, scale: float, generator: torch.Generator | None = None) -> Surface:
        """Stretch every mesh along three random axes, orthogonal to each other.

        Positions are multiplied by ``exp(S)``, S a random symmetric matrix without trace: volumes
        stay, and no direction is more likely than another.

        Parameters
        ----------
        scale : float
            Standard deviation of the entries on the diagonal of S, before the trace is taken off;
            those beside it have one that is smaller by the square root of 2. A stretch along an
            axis is by a factor of about ``exp(scale)``.
        generator : torch.Generator, optional
            Source of the deviates.

        Returns
        -------
        Surface
            The same faces over the moved vertices.
        """
        # As in jitter, the same numbers whatever the dtype and the device.
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
        names = ("vertices", "faces", "pairs", "pair_to_edge", "vertex_batch", "face_batch")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})
