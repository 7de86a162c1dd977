"""Polygons of a mesh file before any repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from equigeo._core.brief import brief_repr
from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.polygons import excess_area, triangulate

_Values = Mapping[str, NDArray[Any]]

_BYTE, _WORD = 255.0, 65535.0  # full colors in integers of 8 and 16 bits
_FOLDED = 1e-4  # excess of a quad whose triangles meet at 1.6 degrees
_ROUNDING = 1e-6  # by how much a color may exceed 1: text has six digits
MAX_FILE_BYTES: Final = 2**31
MAX_CORNERS: Final = 2**16  # of one face; the caps of cylinders have a few thousand at most
MAX_NO_NUMBERS: Final = 2**16  # in the coordinates of a text file; faces that use them are dropped
MAX_PLY_HEADER: Final = 2**20  # bytes, comments included
MAX_PLY_PROPERTIES: Final = 2**8  # and elements; a list takes time for all before it
MAX_GLB_JSON: Final = 2**23  # bytes of the JSON description in a GLB file
MAX_NODES: Final = 2**15  # of the scene of a GLB file
MAX_SCENE: Final = 2**25  # vertices and corners of all instances in the scene of a GLB file


@dataclass(frozen=True, eq=False, repr=False)
class FileAttributes:
    """Values per vertex, face and corner, with format-independent names; missing values are NaN."""

    vertices: _Values = field(default_factory=dict)  # color (vertices, 3 or 4) in [0, 1], uv
    faces: _Values = field(default_factory=dict)  # (faces, ...)
    corners: _Values = field(default_factory=dict)  # (corners, ...) in the order of the faces
    warnings: tuple[str, ...] = ()  # malformed or unread data

    def __bool__(self) -> bool:
        return bool(self.vertices or self.faces or self.corners)

    def __repr__(self) -> str:
        parts = [f"{k}={list(v)}" for k in ("vertices", "faces", "corners") if (v := vars(self)[k])]
        return f"FileAttributes({', '.join(parts)})"


def scale_colors(
    values: NDArray[Any],  # (n, channels) as in the file; NaN if missing
) -> NDArray[np.float64] | None:
    """Scale colors to [0, 1]; return None if any is out of range."""
    # Integers of 16 bits are divided by 65535, others by 255. Floats are fractions unless they are
    # whole numbers above 1: text does not distinguish the two.
    full = 1.0
    known = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
    given = values[known]
    if values.dtype.kind in "iu":
        full = _WORD if values.dtype.itemsize == 2 else _BYTE
    elif given.max(initial=0) > 1 + _ROUNDING and (given == np.round(given)).all():
        full = _BYTE
    with np.errstate(all="ignore"):  # infinite ones are out of range
        if given.min(initial=0) < 0 or given.max(initial=0) / full > 1 + _ROUNDING:
            return None
        scaled: NDArray[np.float64] = np.minimum(values.astype(np.float64) / full, 1.0)
    return scaled


def differing_attributes(
    attributes: _Values,  # (vertices, ...) per name
    own: NDArray[np.int64],  # (...) vertex of each corner before merging
    shared: NDArray[np.int64],  # (...) vertex after merging
) -> dict[str, NDArray[Any]]:
    """Return values per corner of the attributes that differ between merged vertices."""
    moved = own != shared
    one, other = own[moved], shared[moved]
    found = {}
    for name, values in attributes.items():
        a, b = values[one], values[other]
        if ((a != b) & ((a == a) | (b == b))).any():  # NaN equals NaN here
            found[name] = values[own]
    return found


def join_attributes(
    parts: Sequence[Mapping[str, NDArray[np.float64]]],  # (vertices of the part, columns) per name
    sizes: Sequence[int],  # vertices of each part
) -> tuple[dict[str, NDArray[np.float64]], tuple[str, ...]]:
    """Concatenate the attributes of parts, NaN where a part has none, and return warnings."""
    names = dict.fromkeys(name for part in parts for name in part)
    joined, warnings = {}, []
    ends = np.cumsum(sizes)
    for name in names:
        width = max(part[name].shape[1] for part in parts if name in part)
        values = np.full((int(ends[-1]), width), np.nan)
        missing = 0
        for part, size, end in zip(parts, sizes, ends, strict=True):
            if name in part:
                # A color without alpha is opaque.
                values[end - size : end] = 1.0
                values[end - size : end, : part[name].shape[1]] = part[name]
            else:
                missing += size
        if missing:
            warnings.append(f"{missing} of {ends[-1]} vertices have no {name}: NaN there")
        joined[name] = values
    return joined, tuple(warnings)


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
        """Number of triangles returned by :meth:`triangles`."""
        return int((self.sizes - 2).clip(0).sum())

    def triangles(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cut polygons into triangles (triangles, 3); return also their polygons."""
        positions, polygon = self.triangle_corners
        return self.corners[positions], polygon

    @cached_property
    def triangle_corners(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions in ``corners`` of the triangles of polygons, (triangles, 3), and polygons."""
        return triangulate(self.vertices, self.corners, self.sizes)

    def polygon_warnings(self) -> tuple[str, ...]:
        """Return a warning if polygons are not planar or cross themselves, or an empty tuple."""
        if self.sizes.max(initial=0) <= 3:
            return ()
        faces, polygon = self.triangles()
        is_cut = self.sizes[polygon] > 3
        excess = excess_area(self.vertices, faces[is_cut], polygon[is_cut])
        polygons = np.flatnonzero(self.sizes > 3)
        bad = polygons[excess > _FOLDED]
        if not len(bad):
            return ()
        return (
            f"{len(bad)} of {len(polygons)} polygons are not planar or cross themselves, first "
            f"{self.locate_face(int(bad[0]))}; they are cut in their best-fit planes, and up to "
            f"{excess[excess > _FOLDED].max():.2%} of their area depends on the cut",
        )

    def locate_face(self, face: int) -> str:
        """Return the location of a face for messages."""
        return _locate("face", face, self.face_lines)

    def locate_vertex(self, vertex: int) -> str:
        """Return the location of a vertex for messages."""
        return _locate("vertex", vertex, self.vertex_lines)


def _locate(kind: str, index: int, lines: NDArray[np.int64] | None) -> str:
    return f"{kind} {index}" if lines is None else f"line {lines[index]} ({kind} {index})"


def check_counts(
    vertices: int,
    faces: int,
    available: int,  # number of vertices and faces that fit in the file
    unit: str,  # counted item, for the message
) -> None:
    """Raise ``MeshError`` if a header announces negative counts or more than the file can hold."""
    if vertices < 0 or faces < 0:
        raise MeshError(f"announces {vertices} vertices and {faces} faces; counts start at 0")
    if vertices + faces > available:
        raise MeshError(
            f"announces {vertices} vertices and {faces} faces, but has only {available} {unit}: "
            "the file is truncated or its header is wrong; export the mesh again"
        )


def check_corners(
    sizes: NDArray[np.int64],  # (faces,)
) -> None:
    """Raise ``MeshError`` for the first face with more than ``MAX_CORNERS`` corners."""
    if sizes.max(initial=0) > MAX_CORNERS:
        face = int((sizes > MAX_CORNERS).argmax())
        raise MeshError(
            f"face {face} has {sizes[face]} corners, more than {MAX_CORNERS}; cut it into triangles"
        )
