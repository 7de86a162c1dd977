"""Polygons of a mesh file before any repair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equigeo.graphs.brief_repr import brief_repr
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.concatenate_ranges import concatenate_ranges
from equigeo.mesh.io.file_attributes import FileAttributes

_NO_ATTRIBUTES = FileAttributes()


@dataclass(frozen=True, eq=False, repr=False)
class FileMesh:
    """Vertices and polygons of a file, in file order, before any repair."""

    vertices: NDArray[np.float64]  # (vertices, 3); may contain NaN and infinity
    corners: NDArray[np.int64]  # (sum of sizes,) vertex indices of all faces
    sizes: NDArray[np.int64]  # (faces,) corners per face; may be below 3
    vertex_lines: NDArray[np.int64] | None = None  # (vertices,) from 1; binary formats: None
    face_lines: NDArray[np.int64] | None = None  # (faces,)
    first_index: int = 0  # number of the first vertex in messages: 1 in OBJ
    warnings: tuple[str, ...] = ()
    attributes: FileAttributes = _NO_ATTRIBUTES

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        outside = (self.corners < 0) | (self.corners >= len(self.vertices))
        if outside.any():
            # A corner belongs to the first face whose corners end behind it.
            corner = int(outside.argmax())
            face = int(np.searchsorted(np.cumsum(self.sizes), corner, side="right"))
            raise MeshError(
                f"{self.locate_face(face)} refers to vertex "
                f"{self.corners[corner] + self.first_index}, but the file holds "
                f"{len(self.vertices)} (counted from {self.first_index}); export the mesh again"
            )

    @property
    def num_faces(self) -> int:
        """Number of polygons."""
        return len(self.sizes)

    @property
    def num_triangles(self) -> int:
        """Number of triangles returned by :meth:`fan_triangles`."""
        return int((self.sizes - 2).clip(0).sum())

    def fan_triangles(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Split polygons into triangles around their first corner; return also their polygons."""
        positions, polygon = self.fan_corners()
        return self.corners[positions], polygon

    def fan_corners(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return positions in ``corners`` of fan triangles (triangles, 3), and their polygons."""
        # Corners 0, k and k + 1 for k from 1 to size - 2.
        counts = np.maximum(self.sizes - 2, 0)
        polygon = np.repeat(np.arange(len(self.sizes)), counts)
        first = np.cumsum(self.sizes) - self.sizes
        second = concatenate_ranges(first + 1, counts)
        return np.stack([first[polygon], second, second + 1], axis=1), polygon

    def locate_face(self, face: int) -> str:
        """Return the location of a face for messages."""
        return _locate("face", face, self.face_lines)

    def locate_vertex(self, vertex: int) -> str:
        """Return the location of a vertex for messages."""
        return _locate("vertex", vertex, self.vertex_lines)


def _locate(kind: str, index: int, lines: NDArray[np.int64] | None) -> str:
    return f"{kind} {index}" if lines is None else f"line {lines[index]} ({kind} {index})"
