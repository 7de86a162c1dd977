"""Pairs of half-edges; half-edge 3 f + k runs from corner k of face f to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo._core.brief import brief_repr
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh

_MAX_VERTICES = 3_000_000_000  # the product of two indices has to fit into 64 bits

# A sliver has ratios of up to a million, which would make up all of the mean and the deviation by
# which a channel is standardized. These ranges hold every triangle with angles above 3 degrees.
_EDGE_HEIGHT_RANGE = (0.05, 50.0)
_EDGE_EDGE_RANGE = (0.02, 50.0)

# Height over length of the longest edge below which the normal of a face is less and less certain:
# rounding of positions, 1e-16 of their size, would turn it by more than 1e-6.
_LEAST_HEIGHT = 1e-9


def edge_pairs(mesh: TriangleMesh) -> Tensor:
    """Return where faces continue each other, (pairs, 2), lower face first, sorted by faces."""
    if mesh.pairs is None:
        return pairs_of_faces(mesh.faces)
    pairs = mesh.pairs.sort(dim=1).values
    return _sorted_by_faces(pairs[torch.argsort(pairs[:, 0], stable=True)], mesh.num_faces)


def pairs_of_faces(
    faces: Tensor,  # (faces, 3) consistently wound
) -> Tensor:
    """Return :func:`edge_pairs` by vertex indices; raise ``MeshError`` for non-manifold input."""
    repeats = (faces == faces.roll(1, dims=1)).any(dim=1)
    if bool(repeats.any()):
        face = int(torch.nonzero(repeats)[0])
        raise MeshError(f"face {face} repeats a vertex; load_mesh drops such faces")
    start = faces.reshape(-1)
    end = faces.roll(-1, dims=1).reshape(-1)
    if not len(start):
        return start.reshape(0, 2)
    vertices = int(start.max()) + 1
    if vertices > _MAX_VERTICES:
        raise MeshError(f"at most {_MAX_VERTICES} vertices are supported, got {vertices}")
    # An edge is one number, which twins share.
    keys, order = torch.sort(torch.minimum(start, end) * vertices + torch.maximum(start, end))
    same = keys[1:] == keys[:-1]
    one, other = order[:-1][same], order[1:][same]
    forward = start < end
    if bool((same[1:] & same[:-1]).any() or (forward[one] == forward[other]).any()):
        keys, order = torch.sort(start * vertices + end)
        twice = order[1:][keys[1:] == keys[:-1]][0]
        raise MeshError(
            f"face {int(twice) // 3} repeats a directed edge of another face: the mesh is "
            "non-manifold or inconsistently wound; load it with load_mesh, which repairs it"
        )
    pairs = torch.stack((torch.minimum(one, other), torch.maximum(one, other)), dim=1)
    return _sorted_by_faces(pairs, len(faces))


def _sorted_by_faces(pairs: Tensor, num_faces: int) -> Tensor:
    key = (pairs[:, 0] // 3) * num_faces + pairs[:, 1] // 3
    return pairs[torch.argsort(key, stable=True)]


@dataclass(frozen=True, eq=False, repr=False)
class HalfEdgeGeometry:
    """Intrinsic measures of a mesh, per half-edge ``h = 3 f + k`` or per face."""

    length: Tensor  # (faces, 3)
    area: Tensor  # (faces,)
    direction: Tensor  # (faces, 3, 3) unit vectors along half-edges, 1o
    normal: Tensor  # (faces, 3) unit, by the right-hand rule, 1e
    sureness: Tensor  # (faces,): 1 unless rounding dominates the normal, 0 without area

    __repr__ = brief_repr

    @classmethod
    def measure(
        cls,
        vertices: Tensor,  # (vertices, 3)
        faces: Tensor,  # (faces, 3)
    ) -> HalfEdgeGeometry:
        """Measure all faces in the dtype of the positions."""
        corner = vertices[faces]
        edge = corner.roll(-1, dims=1) - corner
        length = torch.linalg.vector_norm(edge, dim=-1)
        normal = torch.linalg.cross(edge[:, 0], edge[:, 1])
        twice_area = torch.linalg.vector_norm(normal, dim=-1)
        tiny = torch.finfo(vertices.dtype).tiny
        least = _LEAST_HEIGHT * length.amax(dim=1).square()
        return cls(
            length=length,
            area=twice_area / 2,
            direction=edge / length.clamp_min(tiny)[..., None],
            normal=normal / twice_area.clamp_min(tiny)[:, None],
            sureness=(twice_area / least.clamp_min(tiny)).clamp_max(1),
        )

    def edge_height_ratio(self) -> Tensor:
        """Return edge length over height, ``l² / (2 A)``, clamped to [0.05, 50], (faces, 3)."""
        tiny = torch.finfo(self.area.dtype).tiny
        ratio = self.length.square() / (2 * self.area).clamp_min(tiny)[:, None]
        return ratio.clamp(*_EDGE_HEIGHT_RANGE)

    def edge_edge_ratios(self) -> tuple[Tensor, Tensor]:
        """Return length over previous and next edge, in [0.02, 50], each (faces, 3)."""
        # Half-edge k of a face comes after k - 1 and before k + 1.
        safe = self.length.clamp_min(torch.finfo(self.length.dtype).tiny)
        previous = self.length / safe.roll(1, dims=1)
        following = self.length / safe.roll(-1, dims=1)
        return previous.clamp(*_EDGE_EDGE_RANGE), following.clamp(*_EDGE_EDGE_RANGE)

    def dihedral_angle(
        self,
        pairs: Tensor,  # (pairs, 2) twin half-edges
    ) -> Tensor:
        """Return the wedge angle on the side of the normals in [0, 2 pi); flat is pi, (pairs,)."""
        # Normal times edge points into a face, across the edge. In the plane across the edge the
        # other face lies at the angle a from this one: inward . normal' = sin a, and
        # inward . inward' = cos a. The arc tangent is accurate for all a, the arc cosine is not.
        face, other = pairs[:, 0] // 3, pairs[:, 1] // 3
        direction = self.direction.reshape(-1, 3)
        inward = torch.linalg.cross(self.normal[face], direction[pairs[:, 0]])
        other_inward = torch.linalg.cross(self.normal[other], direction[pairs[:, 1]])
        rise = (inward * self.normal[other]).sum(-1)
        # Two faces that run along the edge the same way: as if the other were turned over.
        same_way = (direction[pairs[:, 0]] * direction[pairs[:, 1]]).sum(-1) > 0
        rise = torch.where(same_way, -rise, rise)
        run = (inward * other_inward).sum(-1)
        angle = torch.atan2(rise, run)
        angle = torch.where(angle < 0, angle + 2 * math.pi, angle)
        return torch.where(angle < 2 * math.pi, angle, 0.0)  # a tiny negative angle rounds up
