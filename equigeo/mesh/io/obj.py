"""Reader for Wavefront OBJ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.connectivity import concatenate_ranges
from equigeo.mesh.io.file_mesh import FileAttributes, FileMesh, check_corners
from equigeo.mesh.io.text import (
    TokenTable,
    normalize_text,
    read_colors,
    read_indices,
    read_rows,
    warn_of_nonfinite,
)

_COLORED = (6, 7)  # numbers of a vertex line: a position, a color, perhaps its opacity


def read_obj(data: bytes) -> FileMesh:
    """Read the ``v``, ``vt``, ``vn`` and ``f`` lines of an OBJ file; other keywords are ignored."""
    # Web archives and editors wrap sound lines in bytes of their own, so binary is no obstacle.
    text = normalize_text(data, binary_is_text=True)
    table = TokenTable(text)
    vertex_rows, face_rows = table.first_words_equal("v"), table.first_words_equal("f")
    vertices, warnings = _vertices(table, vertex_rows)
    first = table.line_ptr[face_rows] + 1
    sizes = table.line_ptr[face_rows + 1] - first
    check_corners(sizes)
    words = concatenate_ranges(first, sizes)
    corners = read_indices(table, words, stop=table.between_slashes(words, 0)[1])
    # Negative indices count back from the last vertex above the line of the face.
    read_so_far = np.repeat(np.searchsorted(vertex_rows, face_rows), sizes)
    mesh = FileMesh(
        vertices,
        np.where(corners < 0, corners + read_so_far, corners - 1),
        sizes,
        vertex_lines=table.line_number(table.line_ptr[vertex_rows]),
        face_lines=table.line_number(first - 1),
        first_index=1,
        warnings=warnings,
    )
    # Afterwards: an unusable file raises before its attributes take time.
    owner = np.repeat(face_rows, sizes)
    return replace(mesh, attributes=_attributes(table, text, vertex_rows, words, owner))


def _vertices(
    table: TokenTable, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    first = table.line_ptr[rows] + 1
    counts = np.minimum(table.line_ptr[rows + 1] - first, 3)
    vertices = read_rows(table, first, counts, width=3)
    return vertices, warn_of_nonfinite(table, vertices, first - 1)


def _attributes(
    table: TokenTable,
    text: bytes,
    vertex_rows: NDArray[np.int64],  # (vertices,) lines
    words: NDArray[np.int64],  # (corners,)
    owner: NDArray[np.int64],  # (corners,) line of the face
) -> FileAttributes:
    """Read vertex colors, corner uv and normals; malformed values are NaN with a warning."""
    vertices: dict[str, NDArray[Any]] = {}
    corners: dict[str, NDArray[Any]] = {}
    warnings: list[str] = []
    try:
        color = _colors(table, vertex_rows, warnings)
        if color is not None:
            vertices["color"] = color
    except MeshError as error:
        warnings.append(f"colors are left out: the file {error}")
    for place, listed in enumerate((("vt", "uv", 2), ("vn", "normal", 3)), 1):
        keyword, name, _ = listed
        if keyword.encode() not in text:
            continue
        try:
            values = _at_corners(table, listed, words, owner, place, warnings)
        except MeshError as error:
            warnings.append(f"{name} is left out: {error}")
        else:
            if values is not None:
                corners[name] = values
    return FileAttributes(vertices, {}, corners, tuple(warnings))


def _colors(
    table: TokenTable, rows: NDArray[np.int64], warnings: list[str]
) -> NDArray[np.float64] | None:
    first = table.line_ptr[rows] + 1
    counts = table.line_ptr[rows + 1] - first
    if counts.max(initial=0) <= 4:  # the fourth number is a weight
        return None
    colored = np.isin(counts, _COLORED)
    odd = int(((counts > 4) & ~colored).sum())
    if odd:
        warnings.append(f"{odd} vertices have further numbers that are no color; left out")
    if not colored.any():
        return None
    return read_colors(table, first + 3, (counts - 3) * colored, "vertices", warnings)


def _at_corners(
    table: TokenTable,
    listed: tuple[str, str, int],  # keyword of the lines, name and number of their values
    corners: NDArray[np.int64],  # (corners,) words
    owner: NDArray[np.int64],  # (corners,) line of the face
    place: int,  # number of slashes before the index
    warnings: list[str],
) -> NDArray[np.float64] | None:
    """Return values of separate lines (corners, width), NaN if missing; None if all are."""
    keyword, name, width = listed
    rows = table.first_words_equal(keyword)
    if not len(rows):
        return None
    first = table.line_ptr[rows] + 1
    counts = np.minimum(table.line_ptr[rows + 1] - first, width)
    values = read_rows(table, first, counts, width)
    if name == "uv":
        values[counts == 1, 1] = 0.0  # the default of the format
    start, stop = table.between_slashes(corners, place)
    named = np.flatnonzero(stop > start)
    words = corners[named]
    index = read_indices(table, words, stop[named], start=start[named], what=f"{keyword} number")
    index += np.where(index < 0, np.searchsorted(rows, owner[named]), -1)
    inside = (index >= 0) & (index < len(rows))
    if not inside.all():
        line = table.line_number(words[inside.argmin()])
        warnings.append(
            f"{int((~inside).sum())} corners refer to a {keyword} that the file does not "
            f"hold, first in line {line}: {name} is NaN there"
        )
    if not inside.any():
        warnings.append(f"{len(rows)} lines of {keyword} belong to no corner; {name} is left out")
        return None
    found = np.full((len(corners), width), np.nan)
    found[named[inside]] = values[index[inside]]
    bad = int((~np.isfinite(values)).any(axis=1).sum())
    if bad:
        warnings.append(f"{bad} lines of {keyword} are not finite numbers")
    return found
