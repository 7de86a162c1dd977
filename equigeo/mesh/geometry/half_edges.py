"""Half-edges of a triangle mesh and their twins."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.graphs.brief_repr import brief_repr
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh


@dataclass(frozen=True, eq=False, repr=False)
class HalfEdges:
    """Directed edges of all faces; half-edge 3 f + k runs from corner k of face f to the next."""

    twin: Tensor  # (3 * faces,): opposite half-edge, -1 at a boundary or in `crowded`
    crowded: Tensor | None = None  # (pairs, 2) at edges of several faces or clashing winding

    __repr__ = brief_repr

    @classmethod
    def from_mesh(cls, mesh: TriangleMesh) -> HalfEdges:
        """Pair the half-edges by ``mesh.pairs``, or by vertex indices if it is None."""
        if mesh.pairs is None:
            return cls.from_faces(mesh.faces)
        one, other = mesh.pairs.T
        start = mesh.faces.reshape(-1)
        alone = torch.bincount(mesh.pairs.reshape(-1), minlength=len(start)) == 1
        plain = alone[one] & alone[other] & (start[one] != start[other])
        twin = torch.full_like(start, -1)
        twin[one[plain]], twin[other[plain]] = other[plain], one[plain]
        return cls(twin, mesh.pairs[~plain] if not bool(plain.all()) else None)

    @classmethod
    def from_faces(
        cls,
        faces: Tensor,  # (faces, 3) consistently wound
    ) -> HalfEdges:
        """Pair the half-edges by vertex indices; raise ``MeshError`` for non-manifold input."""
        repeats = (faces == faces.roll(1, dims=1)).any(dim=1)
        if bool(repeats.any()):
            face = int(torch.nonzero(repeats)[0])
            raise MeshError(f"face {face} repeats a vertex; load_mesh drops such faces")
        start = faces.reshape(-1)
        end = faces.roll(-1, dims=1).reshape(-1)
        vertices = int(start.max()) + 1 if len(start) else 0
        if vertices > _MAX_VERTICES:
            raise MeshError(f"at most {_MAX_VERTICES} vertices are supported, got {vertices}")
        # A directed edge is one number, so that twins are found by a search in sorted numbers.
        keys, order = torch.sort(start * vertices + end)
        if len(keys) > 1 and bool((keys[1:] == keys[:-1]).any()):
            twice = order[1:][keys[1:] == keys[:-1]][0]
            raise MeshError(
                f"face {int(twice) // 3} repeats a directed edge of another face: the mesh is "
                "non-manifold or inconsistently wound; load it with load_mesh, which repairs it"
            )
        reverse = end * vertices + start
        position = torch.searchsorted(keys, reverse).clamp_(max=max(len(keys) - 1, 0))
        found = keys[position] == reverse if len(keys) else reverse.bool()
        return cls(torch.where(found, order[position] if len(keys) else reverse, -1))

    def pairs(self) -> Tensor:
        """Return pairs of twin half-edges (pairs, 2), lower face first, sorted by faces."""
        half_edge = torch.arange(len(self.twin), device=self.twin.device)
        other = self.twin // 3
        lower = half_edge[(self.twin >= 0) & (half_edge // 3 < other)]
        faces = len(self.twin) // 3
        found = torch.stack((lower, self.twin[lower]), dim=1)
        if self.crowded is not None:
            found = torch.cat((found, self.crowded.sort(dim=1).values))
        order = torch.argsort((found[:, 0] // 3) * faces + found[:, 1] // 3, stable=True)
        return found[order]


_MAX_VERTICES = 3_000_000_000  # the product of two indices has to fit into 64 bits
