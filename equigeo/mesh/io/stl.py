"""Reader for STL, with equal corners merged into one vertex."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.connectivity import coincident_points
from equigeo.mesh.io.file_mesh import FileMesh
from equigeo.mesh.io.text import TokenTable

_HEADER = 84  # bytes before the triangles of a binary file
_ROW = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def read_stl(data: bytes) -> FileMesh:
    """Read the triangles of a text or binary STL file of one or several solids."""
    if not data.strip():
        raise MeshError("is empty; export the mesh again")
    warnings: tuple[str, ...] = ()
    if is_binary_stl(data) or data.lstrip()[:5].lower() != b"solid" or b"\0" in data:
        points, warnings = _binary(data)
    else:
        points = _text(data.lower())
    # The format repeats every corner, so corners at equal positions are one vertex by design.
    first, vertex = np.unique(coincident_points(points, 0.0), return_inverse=True)
    sizes = np.full(len(points) // 3, 3, np.int64)
    return FileMesh(points[first], vertex.reshape(-1), sizes, warnings=warnings)


def is_binary_stl(data: bytes) -> bool:
    """Return whether the length is that of the triangles announced by a binary header."""
    return len(data) == _HEADER + _ROW.itemsize * _announced(data)


def _announced(data: bytes) -> int:
    return int.from_bytes(data[_HEADER - 4 : _HEADER], "little")


def _binary(data: bytes) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return the corners (corners, 3) and a warning of further bytes."""
    if len(data) < _HEADER:
        raise MeshError("is not an STL file: neither 'solid' nor a binary header; check it")
    count = _announced(data)
    further = len(data) - _HEADER - _ROW.itemsize * count
    if further < 0 or (further and not count):
        raise MeshError(
            f"announces {count} triangles, {len(data) - further} bytes, but has {len(data)} bytes: "
            "it is truncated or not an STL file; export the mesh again"
        )
    rows = np.frombuffer(data, _ROW, count, _HEADER)
    with np.errstate(all="ignore"):  # a signaling NaN of float32 complains when it is widened
        points = rows["corners"].astype(np.float64).reshape(-1, 3)
    return points, (f"{further} bytes after the last triangle",) if further else ()


def _text(text: bytes) -> NDArray[np.float64]:
    """Return the corners (corners, 3) of text in lower case."""
    table = TokenTable(text, comments=False)
    is_vertex, is_loop = table.words_equal("vertex"), table.words_equal("loop")
    # The name of a solid may be any word: corners follow "loop" or another corner.
    before = np.append(False, is_loop[:-1]) | np.append(np.zeros(4, bool), is_vertex)[:-4]
    corner = np.flatnonzero(is_vertex & before)
    ends = np.flatnonzero(table.words_equal("endfacet"))
    wrong = np.searchsorted(corner, ends) != 3 * np.arange(1, len(ends) + 1)
    has_room = (np.diff(corner, append=len(table.start)) > 3).all()
    if wrong.any() or len(corner) != 3 * len(ends) or not has_room:
        facet = int(wrong.argmax()) if wrong.any() else len(ends)
        raise MeshError(f"is truncated or damaged: facet {facet} does not have three corners")
    words: NDArray[np.int64] = np.repeat(corner, 3) + np.tile(np.arange(1, 4), len(corner))
    points: NDArray[np.float64] = table.numbers(words, float)
    bad = np.isnan(points) & ~table.is_nan(words)
    if bad.any():
        line = table.line_number(words[bad.argmax()])
        raise MeshError(f"line {line}: expected a number; the file is truncated or damaged")
    return points.reshape(-1, 3)
