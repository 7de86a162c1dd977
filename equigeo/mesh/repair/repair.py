"""Repairs of a mesh file in a fixed order."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from numbers import Real
from pathlib import Path
from typing import Final, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo._core.brief import shown
from equigeo._core.config import Range
from equigeo._core.text import shorten
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.connectivity import coincident_points
from equigeo.mesh.geometry.orient import area_vectors
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.io.file_mesh import FileAttributes, FileMesh, differing_attributes
from equigeo.mesh.repair.non_manifold import nonmanifold_faces, wrongly_wound_faces
from equigeo.mesh.repair.topology import (
    EdgeTable,
    MeshTopology,
    all_pairs,
    component_of_faces,
    near_boundary_edges,
    num_components,
    pair_faces,
    split_vertices,
)

NonmanifoldPolicy = Literal["cut", "drop", "clique"]

# Far above the rounding of float64 coordinates (1e-16), far below any edge that is meant: files
# in text hold six to nine digits.
_MERGE_DISTANCE = 1e-9  # of the diagonal of the bounding box
# The same for boundary edges: above the rounding of text with six digits, 1.7e-6.
MERGE: Final = 5e-6
_SEEN = 1e-3  # up to which a warning names boundary edges that nearly coincide
_LEAST_AREA = 1e-12  # of the square of that diagonal: a right triangle with legs of 1.4e-6
LOAD_RANGES: Final = {"merge": Range(0.0, 0.1), "min_component": Range(0.0, 1.0)}


def repair_mesh(
    path: Path,
    file: FileMesh,
    strict: bool = False,
    nonmanifold: NonmanifoldPolicy = "cut",
    merge: float = MERGE,
    min_component: float = 0.0,
) -> tuple[TriangleMesh, LoadReport]:
    """Apply all repairs to the mesh of a file, or raise at the first defect if ``strict``."""
    if nonmanifold not in get_args(NonmanifoldPolicy):
        raise ValueError(
            f"nonmanifold must be one of {get_args(NonmanifoldPolicy)}, got {nonmanifold!r}"
        )
    for name, value in (("merge", merge), ("min_component", min_component)):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"{name} must be a number, got {shown(value)}")
        LOAD_RANGES[name].check(name, value)
    # The order follows the loader of PD-MeshNet (Milano et al., 2020), with non-manifold edges cut,
    # dropped in file order, or kept with all faces adjacent to each other ("clique").
    draft = _Draft(file, strict)
    draft.drop_nonfinite()
    points = scale_to_unit_diagonal(file.vertices, draft.faces)
    draft.merge(points)
    draft.drop_degenerate(points)
    draft.merge_boundaries(points, merge)
    draft.drop_components(min_component)
    pairs = draft.orient(points, nonmanifold)
    if nonmanifold == "drop":
        draft.drop_nonmanifold()
    else:
        draft.keep_nonmanifold(pairs, nonmanifold)
    return draft.finish(path)


@dataclass(frozen=True)
class RepairCounts:
    """Counts per repair action, in the order of the actions."""

    polygons: int = 0  # faces of more than three corners, cut into triangles
    short_faces: int = 0  # faces of fewer than three corners, dropped
    nonfinite_faces: int = 0  # triangles dropped for a non-finite vertex
    merged_vertices: int = 0  # vertices replaced by an earlier one at or near the same position
    repeated_index_faces: int = 0  # triangles dropped for a repeated vertex, also after merging
    zero_area_faces: int = 0  # triangles dropped below 1e-12 of the squared bounding box diagonal
    duplicate_faces: int = 0  # triangles dropped for an earlier one on the same vertices
    small_component_faces: int = 0  # triangles dropped in components below `min_component`
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
            + self.small_component_faces
            + self.nonmanifold_faces
        )


@dataclass(frozen=True, eq=False)
class MeshAttributes:
    """Colors, normals, texture coordinates and other values of a file, in mesh order."""

    vertices: dict[str, Tensor] = field(default_factory=dict)  # (vertices, ...)
    faces: dict[str, Tensor] = field(default_factory=dict)  # (faces, ...)
    # (faces, 3, ...), among them vertex values that differ between merged vertices
    corners: dict[str, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"MeshAttributes({self.summary()})"

    def summary(self) -> str:
        """Return the names of the attributes; empty if there are none."""
        parts = ((kind, getattr(self, kind)) for kind in ("vertices", "faces", "corners"))
        return "; ".join(f"{kind}: {', '.join(found)}" for kind, found in parts if found)


@dataclass(frozen=True, eq=False, repr=False)
class LoadReport:
    r"""Repairs made by ``load_mesh``, and index maps from the file to the mesh.

    Parameters
    ----------
    path : Path
        The file.
    file_vertices, file_faces, file_triangles : int
        Numbers in the file; triangles after cutting polygons.
    counts : RepairCounts
        Number of repairs of each kind.
    topology : MeshTopology
        Closed, oriented, manifold, components and Euler characteristic of the result.
    kept_faces : Tensor, (faces,), int64
        Face of the file of each face; ``labels[report.kept_faces]`` transfers face labels.
    kept_triangles : Tensor, (faces,), int64
        The same among the triangles of cut polygons.
    vertex_map : Tensor, (file_vertices,), int64
        Index in the result of each vertex of the file, -1 if dropped.
    kept_vertices : Tensor, (vertices,), int64
        A vertex of the file for each vertex; repeated where the mesh was cut.
    turned_faces : Tensor, (turned,), int64
        Faces of the result that were flipped: their last two corners are exchanged.
    nonmanifold_edges : Tensor, (edges, 2), int64
        File vertices of edges where the mesh was cut, or where all faces meet with ``"clique"``.
    lost_area, turned_area : float
        Shares of the area of the file, from 0 to 1, that the result lacks or that was flipped.
        Degenerate and duplicate triangles count as no loss, triangles with a non-finite vertex as
        the mean of the others.
    attributes : MeshAttributes
        Dictionaries ``vertices`` (vertices, ...), ``faces`` (faces, ...) and ``corners``
        (faces, 3, ...) of float64 ``color`` (3 or 4 columns from 0 to 1), ``normal``, ``uv`` and
        other values of the file. Missing values are NaN; vertex values that differ between merged
        vertices are in ``corners``, too.
    warnings : tuple of str
        Findings that need attention.

    Examples
    --------
    >>> import tempfile
    >>> from equigeo.mesh.load_mesh import load_mesh
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "square.off")
    ...     _ = path.write_text("OFF 5 1 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n9 9 9\n4 0 1 2 3")
    ...     report = load_mesh(path)[1]
    >>> print(report.summary())
    square.off: 5 vertices, 1 faces -> 4 vertices, 2 triangles
    open, oriented, manifold, components 1, Euler characteristic 1
    polygons: 1
    unreferenced vertices: 1
    """

    path: Path
    file_vertices: int
    file_faces: int
    file_triangles: int
    counts: RepairCounts
    topology: MeshTopology
    kept_faces: Tensor
    kept_triangles: Tensor
    vertex_map: Tensor
    kept_vertices: Tensor
    turned_faces: Tensor
    nonmanifold_edges: Tensor
    lost_area: float
    turned_area: float
    attributes: MeshAttributes = MeshAttributes()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"LoadReport({'; '.join(self.summary().splitlines())})"

    @property
    def is_clean(self) -> bool:
        """Whether the file was loaded without any repair."""
        return not any(asdict(self.counts).values())

    def summary(self) -> str:
        """Summarize in a few lines what was read and repaired."""
        state = self.topology
        flags = [
            "closed" if state.closed else "open",
            "oriented" if state.oriented else "not oriented",
            "manifold" if state.manifold else "not manifold",
            f"components {state.components}",
            f"Euler characteristic {state.euler}",
        ]
        actions = asdict(self.counts).items()
        attributes = self.attributes.summary()
        return "\n".join(
            [
                f"{self.path.name}: {self.file_vertices} vertices, {self.file_faces} faces -> "
                f"{len(self.kept_vertices)} vertices, {len(self.kept_faces)} triangles",
                ", ".join(flags),
                *(f"{action.replace('_', ' ')}: {count}" for action, count in actions if count),
                *([f"lost area: {self.lost_area:.2%}"] if self.lost_area else []),
                *([f"attributes of {attributes}"] if attributes else []),
                *(f"warning: {text}" for text in self.warnings),
            ]
        )


class _Draft:
    """Mesh under repair; vertices keep the numbers of the file until the end."""

    # One row per face, shorter after each `drop`:
    #   faces, faces_before_merge   (faces, 3) vertices after and before `merge`
    #   file_triangle               (faces,) number among the triangles of the file
    # One row per triangle of the file:
    #   file_face, turned, area     polygon; flipped by `orient`; area, 0 for those without
    # One row per vertex:
    #   vertex_map                  (file vertices,) vertex that each one became
    #   file_vertex                 (vertices,) the inverse; `keep_nonmanifold` appends copies

    def __init__(self, file: FileMesh, strict: bool) -> None:
        self.file, self.strict = file, strict
        self.counts: dict[str, int] = {}
        self.warnings = list(file.warnings)
        self.vertex_map = np.arange(len(file.vertices))
        if not file.num_faces:
            raise MeshError(
                f"has no faces, only {len(file.vertices)} vertices; export a surface, not points"
            )
        self.count("short_faces", file.sizes < 3, "has fewer than three corners", "drop it")
        self.count("polygons", file.sizes > 3, "has more than three corners", "cut polygons")
        self.faces, self.file_face = file.triangles()
        self.warnings += file.polygon_warnings()
        self.faces_before_merge = self.faces
        self.file_triangle = np.arange(len(self.faces))
        self.file_vertex = np.arange(len(file.vertices))
        self.turned = np.zeros(len(self.faces), bool)
        self.cut_edges = np.empty((0, 2), np.int64)
        self.pairs: NDArray[np.int64] | None = None
        self.is_clique = False
        self.require_faces()

    def count(self, action: str, bad: NDArray[np.bool_], what: str, remedy: str) -> bool:
        """Count defects; in strict mode, raise."""
        number = int(bad.sum())
        self.counts[action] = self.counts.get(action, 0) + number
        if number and self.strict:
            where = self.file.locate_face(int(bad.argmax()))
            raise MeshError(f"{where} {what}; load it with strict=False to {remedy}")
        return number > 0

    def drop(self, action: str, bad: NDArray[np.bool_], what: str) -> None:
        if self.count(action, bad, what, "drop it"):
            self.faces, self.file_triangle = self.faces[~bad], self.file_triangle[~bad]
            self.faces_before_merge = self.faces_before_merge[~bad]
            self.require_faces()

    def used(self) -> NDArray[np.bool_]:
        used = np.zeros(len(self.file_vertex), bool)
        used[self.faces] = True
        return used

    def require_faces(self) -> None:
        if not len(self.faces):
            done = ", ".join(f"{n} {k.replace('_', ' ')}" for k, n in self.counts.items() if n)
            details = shorten(" ".join([f"({done})", *self.warnings]), 280)
            raise MeshError(f"has no sound face {details}; check how it was exported")

    def drop_nonfinite(self) -> None:
        bad = np.zeros(len(self.file.vertices), bool)
        bad[np.nonzero(~np.isfinite(self.file.vertices))[0]] = True
        a, b, c = self.faces.T
        what = "has a vertex that is not three finite numbers"
        self.drop("nonfinite_faces", bad[a] | bad[b] | bad[c], what)

    def merge(self, points: NDArray[np.float64]) -> None:
        used = np.flatnonzero(self.used())
        first = used[coincident_points(points[used], _MERGE_DISTANCE)]
        moved = used != first
        self.counts["merged_vertices"] = 0
        if moved.any():
            target = np.arange(len(self.vertex_map))
            target[used] = first
            self.move(target)

    def move(self, target: NDArray[np.int64]) -> None:
        """Replace vertices by others, (vertices,); in strict mode, raise."""
        moved = target != np.arange(len(target))
        self.counts["merged_vertices"] += int(moved.sum())
        if self.strict:
            later = int(moved.argmax())
            raise MeshError(
                f"{self.file.locate_vertex(later)} lies at the place of "
                f"{self.file.locate_vertex(int(target[later]))}; load it with strict=False to "
                "merge them"
            )
        before = num_components(self.faces)
        self.vertex_map = target[self.vertex_map]
        self.faces = target[self.faces]
        after = num_components(self.faces)
        if after < before:
            self.warnings.append(f"merging vertices joined {before} components into {after}")

    def merge_boundaries(self, points: NDArray[np.float64], tolerance: float) -> None:
        """Merge the ends of boundary edges that nearly coincide, and report those left."""
        self.edges = EdgeTable.from_faces(self.faces)
        least = _MERGE_DISTANCE
        near = near_boundary_edges(points, self.faces, self.edges, tolerance, least)
        if near.pairs:
            self.move(near.first)
            self.warnings.append(
                f"{near.pairs} pairs of boundary edges nearly coincide, within "
                f"{near.distance:.1e} of the diagonal of the bounding box, and were merged"
            )
            self.drop_degenerate(points)
            self.edges = EdgeTable.from_faces(self.faces)
        left = near_boundary_edges(points, self.faces, self.edges, _SEEN, least)
        if left.distance > tolerance:
            self.warnings.append(
                f"{left.pairs} pairs of boundary edges nearly coincide, within "
                f"{left.distance:.1e} of the diagonal of the bounding box; to merge them, load "
                f"the file with merge={1.1 * left.distance:.1e}"
            )

    def drop_components(self, least: float) -> None:
        """Drop the components with less than this share of the area."""
        if least == 0:
            return
        component = component_of_faces(self.faces)
        area = np.bincount(component, self.area[self.file_triangle])
        share = area / area.sum()
        if (share < least).all():
            raise MeshError(
                f"has no component of {least:g} of the area, the largest has "
                f"{share.max():.2g} of it; load it with a smaller min_component"
            )
        bad = (share < least)[component]
        what = f"is in a component of less than {least:g} of the area"
        self.drop("small_component_faces", bad, what)
        if bad.any():
            number = np.count_nonzero(np.bincount(component[bad]))
            self.warnings.append(
                f"dropped {number} components of less than {least:g} of the area, with "
                f"{bad.sum()} faces and {share[share < least].sum():.2g} of the area together"
            )
            self.edges = EdgeTable.from_faces(self.faces)

    def drop_degenerate(self, points: NDArray[np.float64]) -> None:
        a, b, c = self.faces.T
        self.drop("repeated_index_faces", (a == b) | (b == c) | (c == a), "repeats a vertex")
        area = np.linalg.norm(area_vectors(points, self.faces), axis=0) / 2
        by_triangle = np.zeros(len(self.turned))
        by_triangle[self.file_triangle] = area
        self.drop("zero_area_faces", area < _LEAST_AREA, "has no area")
        what = "has the vertices of an earlier face"
        self.drop("duplicate_faces", duplicate_faces(self.faces), what)
        self.area = np.zeros(len(self.turned))  # of triangles that have one, each counted once
        self.area[self.file_triangle] = by_triangle[self.file_triangle]

    def orient(
        self, points: NDArray[np.float64], nonmanifold: NonmanifoldPolicy
    ) -> NDArray[np.int64]:
        """Orient each part consistently and return the paired half-edges, (pairs, 2)."""
        pairs = self.edges.twins()
        if nonmanifold == "cut":
            pairs = pair_faces(points, self.faces, self.faces_before_merge, self.edges)
        winding = wrongly_wound_faces(points, self.faces, self.edges, pairs)
        turn, nonorientable, self.num_parts = winding
        what = "is wound against its neighbors, or not out of a closed surface"
        if self.count("reoriented_faces", turn, what, "turn it over"):
            self.faces = np.where(turn[:, None], self.faces[:, [0, 2, 1]], self.faces)
            self.faces_before_merge = np.where(
                turn[:, None], self.faces_before_merge[:, [0, 2, 1]], self.faces_before_merge
            )
            self.turned[self.file_triangle[turn]] = True
            self.edges = EdgeTable.from_faces(self.faces)
            # The half-edges of a face that is turned follow each other the other way round.
            pairs = np.where(turn[pairs // 3], pairs + 2 - 2 * (pairs % 3), pairs)
        if nonorientable:
            self.warnings.append(f"{nonorientable} components cannot be oriented; cut at a seam")
        return pairs

    def drop_nonmanifold(self) -> None:
        """Drop faces that no winding makes manifold."""
        what = "runs along an edge in the direction of an earlier face"
        before = len(self.faces)
        self.drop("nonmanifold_faces", nonmanifold_faces(self.edges, self.edges.forward), what)
        if len(self.faces) < before:
            self.edges = EdgeTable.from_faces(self.faces)

    def keep_nonmanifold(self, pairs: NDArray[np.int64], nonmanifold: NonmanifoldPolicy) -> None:
        """Cut the mesh at non-manifold edges, or make all faces there adjacent."""
        edges = self.edges
        forward = edges.forward
        clash = forward[pairs[:, 0]] == forward[pairs[:, 1]]
        is_cut = edges.num_faces_at_edge > 2
        is_cut[edges.edge[pairs[clash, 0]]] = True
        # The later ones of the faces at such an edge, two of which are as they should be.
        rank = np.empty(len(edges.order), np.int64)
        rank[edges.order] = np.arange(len(rank)) - np.repeat(edges.ptr[:-1], np.diff(edges.ptr))
        later = np.zeros(len(self.faces), bool)
        later[np.flatnonzero(is_cut[edges.edge] & (rank > 1)) // 3] = True
        later[pairs[clash].max(axis=1, initial=-1) // 3] = True
        what = "runs along an edge that two faces have already, or against all winding"
        number = int(is_cut.sum())
        if number:
            self.count("nonmanifold_edges", later, what, f"{nonmanifold} the mesh there")
        self.counts["nonmanifold_edges"] = number
        if not number:
            return
        one = edges.order[edges.ptr[:-1][is_cut]]  # a half-edge of each
        ends = np.stack([self.faces.ravel()[one], np.roll(self.faces, -1, axis=1).ravel()[one]], 1)
        self.cut_edges = np.sort(ends, axis=1)
        if nonmanifold == "clique":
            self.pairs, self.is_clique = all_pairs(edges), True
            return
        pairs = pairs[~clash]
        is_end = np.zeros(len(self.file_vertex), bool)
        is_end[ends] = True
        self.faces, copies = split_vertices(self.faces, pairs, is_end)
        self.counts["split_vertices"] = len(copies)
        # A vertex of the file maps to the vertex of its first face; copies map back to it.
        corner, loose = self.faces.ravel(), self.faces_before_merge.ravel()
        new, first = np.unique(corner, return_index=True)
        is_copy = new >= len(self.file_vertex)
        self.file_vertex = np.append(self.file_vertex, loose[first[is_copy]])
        used, first = np.unique(loose, return_index=True)
        self.vertex_map[used] = corner[first]
        self.edges = EdgeTable.from_faces(self.faces)
        is_plain = (self.edges.num_faces_at_edge <= 2).all()
        if not is_plain or len(self.edges.twins()) > len(pairs):
            self.pairs = pairs  # some copies met again: vertices are ambiguous

    def finish(self, path: Path) -> tuple[TriangleMesh, LoadReport]:
        """Drop unused vertices and describe the result."""
        kept = self.used()
        number = np.where(kept, np.cumsum(kept) - 1, -1)
        of_file = kept[: len(self.vertex_map)]
        unused = ~of_file & (self.vertex_map == np.arange(len(of_file)))
        self.counts["unreferenced_vertices"] = int(unused.sum())
        if self.strict and unused.any():
            where = self.file.locate_vertex(int(unused.argmax()))
            raise MeshError(f"{where} is in no face; load it with strict=False to drop it")
        faces = number[self.faces]
        edges = EdgeTable.from_faces(faces) if len(kept) > len(of_file) else self.edges
        is_cut = any(self.counts.get(f"nonmanifold_{what}") for what in ("edges", "faces"))
        topology = MeshTopology.from_faces(
            faces,
            edges,
            None if self.is_clique else self.pairs,
            None if is_cut else self.num_parts,
        )
        if topology.nonmanifold_vertices:
            fans = f"at {topology.nonmanifold_vertices} vertices several fans of faces meet"
            self.warnings.append(f"{fans}; they are kept")
        if topology.components > 1:
            self.warnings.append(f"the mesh has {topology.components} components")
        turned, source = self.turned[self.file_triangle], self.file_vertex[kept]
        attributes = follow_attributes(self.file, self.file_triangle, turned, faces, source)
        # Triangles of unknown area count as the mean of the others.
        area = self.area
        unknown = self.counts["nonfinite_faces"] * (area.sum() / np.count_nonzero(area))
        total = area.sum() + unknown
        lost = np.ones(len(area), bool)
        lost[self.file_triangle] = False
        pairs = None if self.pairs is None else torch.from_numpy(self.pairs)
        vertices = torch.from_numpy(self.file.vertices[source])
        found = (attributes.vertices, attributes.faces, attributes.corners)
        report = LoadReport(
            path=path,
            file_vertices=len(self.file.vertices),
            file_faces=self.file.num_faces,
            file_triangles=self.file.num_triangles,
            counts=RepairCounts(**self.counts),
            topology=topology,
            kept_faces=torch.from_numpy(self.file_face[self.file_triangle]),
            kept_triangles=torch.from_numpy(self.file_triangle),
            vertex_map=torch.from_numpy(number[self.vertex_map]),
            kept_vertices=torch.from_numpy(source),
            turned_faces=torch.from_numpy(np.flatnonzero(turned)),
            nonmanifold_edges=torch.from_numpy(self.cut_edges),
            lost_area=float((area[lost].sum() + unknown) / total),
            turned_area=float(area[self.file_triangle[turned]].sum() / total),
            attributes=MeshAttributes(
                *({name: torch.from_numpy(x) for name, x in part.items()} for part in found)
            ),
            warnings=(*self.warnings, *attributes.warnings),
        )
        return TriangleMesh(vertices, torch.from_numpy(faces), pairs), report


def follow_attributes(
    file: FileMesh,
    triangle: NDArray[np.int64],  # (faces,) index among the triangles of the file
    turned: NDArray[np.bool_],  # (faces,) whether the triangle was flipped
    faces: NDArray[np.int64],  # (faces, 3) of the result
    source: NDArray[np.int64],  # (vertices,) vertex in the file
) -> FileAttributes:
    """Reorder the attributes of a file for the repaired mesh; corners become (faces, 3, ...)."""
    given = file.attributes
    if not given:
        return given
    corners, polygon = file.triangle_corners
    corners, polygon = corners[triangle], polygon[triangle]
    corners = np.where(turned[:, None], corners[:, [0, 2, 1]], corners)
    own, shared = file.corners[corners], source[faces]
    # Of merged vertices the first gives the value; where values differ, corners keep their own
    # under the same name, unless the file has a corner attribute of that name.
    return FileAttributes(
        {name: values[source] for name, values in given.vertices.items()},
        {name: values[polygon] for name, values in given.faces.items()},
        differing_attributes(given.vertices, own, shared)
        | {name: values[corners] for name, values in given.corners.items()},
        given.warnings,
    )


def scale_to_unit_diagonal(
    vertices: NDArray[np.float64],  # (vertices, 3)
    corners: NDArray[np.int64],  # used vertices, any shape
) -> NDArray[np.float64]:
    """Center and scale positions so that the bounding box of used vertices has unit diagonal."""
    with np.errstate(all="ignore"):  # vertices out of use may be NaN, infinite or far away
        is_used = np.zeros(len(vertices), bool)
        is_used[corners] = True
        used = vertices[is_used]
        # First by the largest coordinate: the square of one beyond 1e154 overflows in the norm.
        largest = np.abs(used).max(initial=0.0)
        scaled, used = vertices / (largest or 1.0), used / (largest or 1.0)
        low, high = used.min(axis=0), used.max(axis=0)
        diagonal = float(np.linalg.norm(high - low))
        if diagonal == 0.0:
            return np.zeros_like(vertices)
        return (scaled - (low + high) / 2) / diagonal


def duplicate_faces(
    faces: NDArray[np.int64],  # (faces, 3)
) -> NDArray[np.bool_]:
    """Mark triangles on the same vertices as an earlier one, in either winding, (faces,)."""
    # Equal faces have equal sums of random numbers of their vertices; others nearly never have.
    code = np.random.default_rng(0).integers(0, 2**64, int(faces.max(initial=0)) + 1, np.uint64)
    total = code[faces].sum(axis=1, dtype=np.uint64)
    ordered = np.sort(total)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    duplicate = np.zeros(len(faces), bool)
    if not len(repeated):
        return duplicate
    alike = np.flatnonzero(np.isin(total, repeated))
    first = np.unique(np.sort(faces[alike], axis=1), axis=0, return_index=True)[1]
    duplicate[alike] = True
    duplicate[alike[first]] = False
    return duplicate
