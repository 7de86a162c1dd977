"""The order in which files list the edges of a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo._core.brief import brief_repr
from equigeo._core.checks import TensorLike, as_tensor
from equigeo.mesh import LoadReport, TriangleMesh
from equigeo.mesh.io.file_mesh import FileMesh
from equigeo.mesh.repair.non_manifold import nonmanifold_faces
from equigeo.mesh.repair.topology import EdgeTable


class OrderedEdges(NamedTuple):
    """Edges in the order of their first appearance."""

    vertices: Tensor
    of_faces: Tensor


def edges_in_order(faces: TensorLike) -> OrderedEdges:
    """Number the edges of triangles as MeshCNN does.

    Faces are scanned in order and, within a face, the edges between corners 0 and 1, 1 and 2, 2 and
    0; each edge is numbered at its first appearance. Lines of ``.eseg`` and ``.seseg`` files have
    this order.

    Parameters
    ----------
    faces : Tensor or ndarray, (faces, 3), integer

    Returns
    -------
    vertices : Tensor, (edges, 2), int64
        Ends of each edge, the smaller index first.
    of_faces : Tensor, (faces, 3), int64
        Edges of each face.

    References
    ----------
    Hanocka et al., "MeshCNN: a network with an edge", 2019 (the order of its label files).

    Examples
    --------
    >>> edges = edges_in_order(torch.tensor([[0, 1, 2], [0, 3, 1]]))
    >>> edges.vertices.tolist(), edges.of_faces.tolist()
    ([[0, 1], [1, 2], [0, 2], [0, 3], [1, 3]], [[0, 1, 2], [3, 4, 0]])
    """
    rows = as_tensor(faces, "faces")
    if rows.ndim != 2 or rows.shape[1] != 3 or rows.is_floating_point() or rows.is_complex():
        raise ValueError(f"faces must be integer (faces, 3), got {rows.dtype} {tuple(rows.shape)}")
    rows = rows.to(torch.int64)
    if len(rows) and int(rows.min()) < 0:
        raise ValueError(f"faces must hold vertex indices, got {int(rows.min())}")
    ends = torch.stack((rows, rows.roll(-1, dims=1)), dim=-1).reshape(-1, 2).sort(dim=1).values
    low, high = ends.unbind(1)
    # Vertices are renumbered below the number of corners, so that the product of two fits.
    used, compact = torch.stack((low, high)).unique(return_inverse=True)
    keys, inverse = (compact[0] * len(used) + compact[1]).unique(return_inverse=True)
    positions = torch.arange(len(ends), device=rows.device)
    first = positions.new_full((len(keys),), len(ends))
    first = first.scatter_reduce(0, inverse, positions, "amin")
    first, order = first.sort()
    number = torch.empty_like(order)
    number[order] = torch.arange(len(order), device=rows.device)
    return OrderedEdges(ends[first], number[inverse].reshape(-1, 3))


@dataclass(frozen=True, eq=False, repr=False)
class FileTriangles:
    """Faces of a file before repair, and the faces that MeshCNN keeps."""

    vertices: Tensor  # (vertices, 3)
    faces: Tensor  # (faces, 3) in file order
    kept: Tensor  # (kept faces,): of nonzero area, no repeated directed half-edge

    __repr__ = brief_repr

    @staticmethod
    def from_file(file: FileMesh) -> FileTriangles:
        """Scan the faces of a file; raise unless all are triangles."""
        other = file.sizes != 3
        if other.any():
            face = int(other.argmax())
            raise ValueError(
                f"{file.locate_face(face)} has {file.sizes[face]} corners; labels of edges need "
                "triangles"
            )
        faces = file.corners.reshape(-1, 3)
        kept = np.flatnonzero(_has_area(file.vertices[faces]))
        edges = EdgeTable.from_faces(faces[kept])
        kept = kept[~nonmanifold_faces(edges, edges.forward)]
        return FileTriangles(*(torch.from_numpy(a) for a in (file.vertices, faces, kept)))

    @cached_property
    def edges(self) -> OrderedEdges:
        """Return the edges of all faces."""
        return edges_in_order(self.faces)

    @cached_property
    def kept_edges(self) -> OrderedEdges:
        """Return the edges of the faces that MeshCNN keeps."""
        return edges_in_order(self.faces[self.kept])

    def face_lines(self, number: int) -> Tensor | None:
        """Return the line of each face, -1 if not kept, in a label file of ``number`` lines."""
        if number == len(self.faces):
            return torch.arange(number)
        if number != len(self.kept):
            return None
        lines = torch.full((len(self.faces),), -1)
        lines[self.kept] = torch.arange(number)
        return lines

    def edge_lines(self, number: int) -> Tensor | None:
        """Return the line of each edge (faces, 3), -1 if not kept; None without a match."""
        if number == len(self.kept_edges.vertices):  # first: this is how MeshCNN reads the file
            lines = torch.full_like(self.faces, -1)
            lines[self.kept] = self.kept_edges.of_faces
            return lines
        return self.edges.of_faces if number == len(self.edges.vertices) else None

    def lengths(self) -> Tensor:
        """Return the edge lengths of every face, (faces, 3)."""
        corners = self.vertices[self.faces]
        return torch.linalg.vector_norm(corners.roll(-1, dims=1) - corners, dim=2)


def lines_of_edges(
    edge_lines: Tensor,  # (faces of the file, 3)
    mesh: TriangleMesh,
    report: LoadReport,
) -> Tensor:
    """Map label lines of edges to the repaired mesh, (edges,); -1 if an edge has none."""
    lines = edge_lines[report.kept_triangles]
    # A face that is turned over has its last two corners exchanged: its edges come in reverse.
    lines[report.turned_faces] = lines[report.turned_faces].flip(1)
    edges = edges_in_order(mesh.faces)
    found, of_faces = lines.reshape(-1), edges.of_faces.reshape(-1)
    position = torch.arange(len(found))
    first = position.new_full((len(edges.vertices),), len(found))
    # Of merged edges the first with a line counts.
    first = first.scatter_reduce(0, of_faces[found >= 0], position[found >= 0], "amin")
    return torch.cat([found, found.new_tensor([-1])])[first]


def _has_area(corners: NDArray[np.float64]) -> NDArray[np.bool_]:
    with np.errstate(all="ignore"):  # a file may hold anything; what is not finite is no zero
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    has_area: NDArray[np.bool_] = ~(normals == 0).all(axis=1)
    return has_area
