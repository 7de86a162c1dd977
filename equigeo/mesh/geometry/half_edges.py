"""Half-edges of a triangle mesh and which of them are twins."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.graphs.brief_repr import brief_repr
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh


@dataclass(frozen=True, eq=False, repr=False)
class HalfEdges:
    """The three directed edges of every face, paired across shared edges.

    Half-edge ``3 f + k`` runs from corner ``k`` of face ``f`` to corner ``k + 1``.

    Parameters
    ----------
    twin : Tensor, (3 * faces,), int64
        The half-edge of the neighbouring face with the same end points in opposite direction, or
        -1 on a boundary, and where more than two faces meet.
    crowded : Tensor, (pairs, 2), int64, optional
        Half-edges that meet where more than two faces do, or two that are wound against each other.

    Examples
    --------
    >>> HalfEdges.from_faces(torch.tensor([[0, 1, 2], [0, 3, 1]])).twin.tolist()
    [5, -1, -1, -1, -1, 0]
    """

    twin: Tensor
    crowded: Tensor | None = None

    __repr__ = brief_repr

    @classmethod
    def from_mesh(cls, mesh: TriangleMesh) -> HalfEdges:
        """Pair the half-edges as the mesh says, or as its vertices tell.

        Parameters
        ----------
        mesh : TriangleMesh
            Consistently wound.

        Returns
        -------
        HalfEdges
            The pairing.

        Raises
        ------
        MeshError
            If vertices tell nothing, see :meth:`from_faces`.

        Examples
        --------
        >>> cut = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 3, 1]]),
        ...                    torch.empty(0, 2, dtype=torch.int64))
        >>> HalfEdges.from_mesh(cut).twin.tolist()
        [-1, -1, -1, -1, -1, -1]
        """
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
    def from_faces(cls, faces: Tensor) -> HalfEdges:
        """Pair the half-edges by one sort and one binary search.

        Parameters
        ----------
        faces : Tensor, (faces, 3), int64
            Vertex indices, consistently wound.

        Returns
        -------
        HalfEdges
            The pairing.

        Raises
        ------
        MeshError
            If two faces use the same directed edge: non-manifold or inconsistently wound; or if a
            face repeats a vertex.
        """
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
        """Twin half-edges, once per shared edge, the side of the lower face first.

        Returns
        -------
        Tensor, (pairs, 2), int64
            Sorted by the lower and then by the higher face.

        Examples
        --------
        >>> HalfEdges.from_faces(torch.tensor([[0, 1, 2], [0, 3, 1]])).pairs().tolist()
        [[0, 5]]
        """
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
