"""What repair gives: the triangles that are left, where they come from, and what was done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equigeo.graphs.brief_repr import brief_repr
from equigeo.mesh.io.file_attributes import FileAttributes
from equigeo.mesh.repair.mesh_topology import MeshTopology


@dataclass(frozen=True)
class RepairCounts:
    """Counts per action, in the order in which the actions are taken.

    Parameters
    ----------
    polygons : int
        Faces of more than three corners, cut into triangles.
    short_faces : int
        Faces of the file with fewer than three corners, dropped.
    nonfinite_faces : int
        Triangles dropped for a vertex that is no three finite numbers.
    merged_vertices : int
        Vertices replaced by an earlier one at the same place.
    repeated_index_faces : int
        Triangles dropped for a vertex that occurs twice, also after merging.
    zero_area_faces : int
        Triangles dropped for an area below 1e-12 of the squared diagonal of the bounding box.
    duplicate_faces : int
        Triangles dropped for an earlier one on the same vertices.
    reoriented_faces : int
        Triangles turned over.
    nonmanifold_edges : int
        Edges of more than two faces, or at the seam of a part that cannot be oriented, where the
        mesh was cut or all faces meet.
    split_vertices : int
        Vertices added because faces that meet there no longer continue each other.
    nonmanifold_faces : int
        Triangles dropped for a directed half-edge that an earlier one holds.
    unreferenced_vertices : int
        Vertices dropped because no triangle uses them.

    Examples
    --------
    >>> RepairCounts(polygons=2, duplicate_faces=3, zero_area_faces=1).removed_faces
    4
    """

    polygons: int = 0
    short_faces: int = 0
    nonfinite_faces: int = 0
    merged_vertices: int = 0
    repeated_index_faces: int = 0
    zero_area_faces: int = 0
    duplicate_faces: int = 0
    reoriented_faces: int = 0
    nonmanifold_edges: int = 0
    split_vertices: int = 0
    nonmanifold_faces: int = 0
    unreferenced_vertices: int = 0

    @property
    def removed_faces(self) -> int:
        """Triangles dropped for any reason."""
        return (
            self.nonfinite_faces
            + self.repeated_index_faces
            + self.zero_area_faces
            + self.duplicate_faces
            + self.nonmanifold_faces
        )


@dataclass(frozen=True)
class FileArea:
    """Shares of the surface of a file: the area of its triangles that have one, each counted once.

    Parameters
    ----------
    lost : float
        What the result lacks. Triangles with a vertex that is not finite count as the mean of the
        others. Degenerate triangles and repetitions of earlier ones are no loss.
    turned : float
        What was turned over; nothing of it is lost.

    Examples
    --------
    >>> FileArea.of(np.array([1.0, 1.0, 2.0]), np.array([0, 2]), np.array([False, True]), 0)
    FileArea(lost=0.25, turned=0.5)
    """

    lost: float
    turned: float

    @classmethod
    def of(
        cls,
        area: NDArray[np.float64],
        kept: NDArray[np.int64],
        turned: NDArray[np.bool_],
        unknown: int,
    ) -> FileArea:
        """Compare what is kept with all.

        Parameters
        ----------
        area : ndarray, (triangles of the file,), float64
            Area of each, 0 where it is degenerate, a repetition, or unknown.
        kept : ndarray, (faces,), int64
            Triangles that are kept; at least one of them has an area.
        turned : ndarray, (faces,), bool
            Which of them are turned over.
        unknown : int
            How many triangles have an unknown area.
        """
        mean = area.sum() / np.count_nonzero(area)
        lost = np.ones(len(area), bool)
        lost[kept] = False
        total = area.sum() + unknown * mean
        missing = area[lost].sum() + unknown * mean
        return cls(float(missing / total), float(area[kept[turned]].sum() / total))


@dataclass(frozen=True, eq=False, repr=False)
class RepairedMesh:
    """Triangles after repair, and where they come from.

    Parameters
    ----------
    vertices : ndarray, (vertices, 3), float64
        Positions as in the file.
    faces : ndarray, (faces, 3), int64
        Triangles in file order.
    triangle : ndarray, (faces,), int64
        Index of each among the triangles of the file, polygons cut, before any was dropped.
    polygon : ndarray, (faces,), int64
        Index of the face of the file that each comes from.
    vertex_map : ndarray, (vertices of the file,), int64
        What each vertex of the file became, -1 if dropped.
    kept_vertices : ndarray, (vertices,), int64
        Vertex of the file that each is; of several at one place, the first.
    turned : ndarray, (faces,), bool
        Which triangles were turned over: their last two corners are exchanged.
    nonmanifold_edges : ndarray, (edges, 2), int64
        Edges where the mesh was cut, or all faces meet, by the vertices of the file at their ends.
    area : FileArea
        What of the surface is missing or turned over.
    pairs : ndarray, (pairs, 2), int64, optional
        Half-edges that meet, where the vertices of faces do not tell.
    counts : RepairCounts
        How often each repair was made.
    topology : MeshTopology
        What the result is.
    warnings : tuple of str
        What a user should look at.
    attributes : FileAttributes
        Those of the file, in the order of the result; those of corners are (faces, 3, ...).
    """

    vertices: NDArray[np.float64]
    faces: NDArray[np.int64]
    triangle: NDArray[np.int64]
    polygon: NDArray[np.int64]
    vertex_map: NDArray[np.int64]
    kept_vertices: NDArray[np.int64]
    turned: NDArray[np.bool_]
    nonmanifold_edges: NDArray[np.int64]
    area: FileArea
    pairs: NDArray[np.int64] | None
    counts: RepairCounts
    topology: MeshTopology
    warnings: tuple[str, ...]
    attributes: FileAttributes

    __repr__ = brief_repr
