"""How often each repair was made."""

from __future__ import annotations

from dataclasses import dataclass


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
