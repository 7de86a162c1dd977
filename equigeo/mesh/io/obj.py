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
    corners = read_indices(table, words, stop=table.cut_at_slash(words))
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
    # Afterwards: a file that cannot be used is refused before its attributes take time.
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
    for place, (keyword, name, width) in enumerate((("vt", "uv", 2), ("vn", "normal", 3)), 1):
        if keyword.encode() not in text:
            continue
        try:
            values = _Listed(table, keyword, name, width).at_corners(words, owner, place, warnings)
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


class _Listed:
    """Values on separate lines that corners refer to by number."""

    def __init__(self, table: TokenTable, keyword: str, name: str, width: int) -> None:
        self.table, self.keyword, self.name = table, keyword, name
        self.rows = table.first_words_equal(keyword)
        first = table.line_ptr[self.rows] + 1
        counts = np.minimum(table.line_ptr[self.rows + 1] - first, width)
        self.values = read_rows(table, first, counts, width)
        if name == "uv":
            self.values[counts == 1, 1] = 0.0  # the default of the format

    def at_corners(
        self, corners: NDArray[np.int64], owner: NDArray[np.int64], place: int, warnings: list[str]
    ) -> NDArray[np.float64] | None:
        """Return values (corners, width), NaN at corners without one; None if all are NaN."""
        if not len(self.rows):
            return None
        start, stop = self.table.between_slashes(corners, place)
        named = np.flatnonzero(stop > start)
        words = corners[named]
        index = read_indices(
            self.table, words, stop[named], start=start[named], what=f"{self.keyword} number"
        )
        index += np.where(index < 0, np.searchsorted(self.rows, owner[named]), -1)
        inside = (index >= 0) & (index < len(self.rows))
        if not inside.all():
            line = self.table.line_number(words[inside.argmin()])
            warnings.append(
                f"{int((~inside).sum())} corners refer to a {self.keyword} that the file does not "
                f"hold, first in line {line}: {self.name} is NaN there"
            )
        if not inside.any():
            unused = f"{len(self.rows)} lines of {self.keyword} belong to no corner"
            warnings.append(f"{unused}; {self.name} is left out")
            return None
        values = np.full((len(corners), self.values.shape[1]), np.nan)
        values[named[inside]] = self.values[index[inside]]
        bad = int((~np.isfinite(self.values)).any(axis=1).sum())
        if bad:
            warnings.append(f"{bad} lines of {self.keyword} are not finite numbers")
        return values
