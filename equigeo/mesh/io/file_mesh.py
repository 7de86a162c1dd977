"""The polygons of one file, as written."""

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
    """Vertices and polygons of a file, in file order, before any repair.

    Parameters
    ----------
    vertices : ndarray, (vertices, 3), float64
        Positions; not finite where the file says so or holds no number.
    corners : ndarray, (sum of sizes,), int64
        Vertex indices of all faces in a row, counted from 0.
    sizes : ndarray, (faces,), int64
        Number of corners of each face; any number, also below 3.
    vertex_lines, face_lines : ndarray, (vertices,) and (faces,), int64, optional
        Line of each in the file, counted from 1; absent where the format has no lines.
    first_index : int
        What the format calls its first vertex, for messages: 1 in OBJ.
    warnings : tuple of str
        What was unusual in the text.
    attributes : FileAttributes
        Colors, normals and whatever else the file says of vertices, faces and corners.

    Raises
    ------
    MeshError
        If a face refers to a vertex that the file does not hold.

    Examples
    --------
    >>> quad = FileMesh(np.eye(4, 3), np.array([0, 1, 2, 3]), np.array([4]))
    >>> quad.num_faces, quad.locate_face(0)
    (1, 'face 0')
    """

    vertices: NDArray[np.float64]
    corners: NDArray[np.int64]
    sizes: NDArray[np.int64]
    vertex_lines: NDArray[np.int64] | None = None
    face_lines: NDArray[np.int64] | None = None
    first_index: int = 0
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
        """Number of faces, whatever their number of corners."""
        return len(self.sizes)

    @property
    def num_triangles(self) -> int:
        """Number of triangles that :meth:`fan_triangles` cuts."""
        return int((self.sizes - 2).clip(0).sum())

    def fan_triangles(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cut each polygon into triangles around its first corner.

        Returns
        -------
        triangles : ndarray, (triangles, 3), int64
            In the order of the polygons, with their winding; a polygon of fewer than three corners
            gives none.
        polygon : ndarray, (triangles,), int64
            Which polygon each comes from.

        Examples
        --------
        >>> quad = FileMesh(np.eye(4, 3), np.array([2, 1, 0, 3]), np.array([4]))
        >>> quad.fan_triangles()[0].tolist()
        [[2, 1, 0], [2, 0, 3]]
        """
        positions, polygon = self.fan_corners()
        return self.corners[positions], polygon

    def fan_corners(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tell which corners the triangles of :meth:`fan_triangles` have.

        Returns
        -------
        positions : ndarray, (triangles, 3), int64
            Positions in ``corners``.
        polygon : ndarray, (triangles,), int64
            Which polygon each comes from.

        Examples
        --------
        >>> quad = FileMesh(np.eye(4, 3), np.array([2, 1, 0, 3]), np.array([4]))
        >>> quad.fan_corners()[0].tolist()
        [[0, 1, 2], [0, 2, 3]]
        """
        # Corners 0, k and k + 1 for k from 1 to size - 2.
        counts = np.maximum(self.sizes - 2, 0)
        polygon = np.repeat(np.arange(len(self.sizes)), counts)
        first = np.cumsum(self.sizes) - self.sizes
        second = concatenate_ranges(first + 1, counts)
        return np.stack([first[polygon], second, second + 1], axis=1), polygon

    def locate_face(self, face: int) -> str:
        """Say where a face is, for messages."""
        return _locate("face", face, self.face_lines)

    def locate_vertex(self, vertex: int) -> str:
        """Say where a vertex is, for messages."""
        return _locate("vertex", vertex, self.vertex_lines)


def _locate(kind: str, index: int, lines: NDArray[np.int64] | None) -> str:
    return f"{kind} {index}" if lines is None else f"line {lines[index]} ({kind} {index})"
