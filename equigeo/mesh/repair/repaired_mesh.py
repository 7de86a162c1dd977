"""Result of mesh repair, with its origin in the file and counts per action."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equigeo.graphs.brief_repr import brief_repr
from equigeo.mesh.io.file_attributes import FileAttributes
from equigeo.mesh.repair.mesh_topology import MeshTopology


@dataclass(frozen=True)
class RepairCounts:
    """Counts per repair action, in the order of the actions."""

    polygons: int = 0  # faces of more than three corners, cut into triangles
    short_faces: int = 0  # faces of fewer than three corners, dropped
    nonfinite_faces: int = 0  # triangles dropped for a non-finite vertex
    merged_vertices: int = 0  # vertices replaced by an earlier one at the same position
    repeated_index_faces: int = 0  # triangles dropped for a repeated vertex, also after merging
    zero_area_faces: int = 0  # triangles dropped below 1e-12 of the squared bounding box diagonal
    duplicate_faces: int = 0  # triangles dropped for an earlier one on the same vertices
    reoriented_faces: int = 0  # triangles flipped
    nonmanifold_edges: int = 0  # edges where the mesh was cut or all faces meet, seams included
    split_vertices: int = 0  # vertices added where faces no longer continue each other
    nonmanifold_faces: int = 0  # triangles dropped for a repeated directed half-edge
    unreferenced_vertices: int = 0  # vertices dropped because no triangle uses them

    @property
    def removed_faces(self) -> int:
        """Number of triangles dropped for any reason."""
        return (
            self.nonfinite_faces
            + self.repeated_index_faces
            + self.zero_area_faces
            + self.duplicate_faces
            + self.nonmanifold_faces
        )


@dataclass(frozen=True, eq=False, repr=False)
class RepairedMesh:
    """Triangles after repair, with their origin in the file."""

    vertices: NDArray[np.float64]  # (vertices, 3) as in the file
    faces: NDArray[np.int64]  # (faces, 3) in file order
    triangle: NDArray[np.int64]  # (faces,) index among the triangles of the file
    polygon: NDArray[np.int64]  # (faces,) face of the file
    vertex_map: NDArray[np.int64]  # (vertices of the file,), -1 if dropped
    kept_vertices: NDArray[np.int64]  # (vertices,) vertex of the file; the first of merged ones
    turned: NDArray[np.bool_]  # (faces,) flipped: last two corners exchanged
    nonmanifold_edges: NDArray[np.int64]  # (edges, 2) cut or shared by all faces, by file vertices
    lost_area: float  # share of the area; without degenerate and duplicate triangles
    turned_area: float  # flipped, not lost
    pairs: NDArray[np.int64] | None  # (pairs, 2) paired half-edges, if vertices are ambiguous
    counts: RepairCounts
    topology: MeshTopology
    warnings: tuple[str, ...]
    attributes: FileAttributes  # in the order of the result; corners (faces, 3, ...)

    __repr__ = brief_repr
