"""Reader for OFF, the Object File Format of Geomview, in its text variants."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.connectivity import concatenate_ranges
from equigeo.mesh.io.file_mesh import FileAttributes, FileMesh, check_corners, check_counts
from equigeo.mesh.io.text import (
    TokenTable,
    normalize_text,
    read_colors,
    read_indices,
    read_rows,
    read_values,
    warn_of_nonfinite,
)

_NORMAL, _UV = 3, 2  # numbers of each
_RGB, _RGBA = 3, 4
_KEYWORD = re.compile(
    rb"(?P<texture>ST)?(?P<color>C)?(?P<normal>N)?(?P<homogeneous>4)?(?P<any_dimension>n)?OFF"
    rb"(?P<rest>.*)"
)


def read_off(data: bytes) -> FileMesh:
    """Read an OFF, COFF, NOFF, STOFF or 4OFF text file, with colors, normals and textures."""
    if re.match(rb"\s*[STCNn4]*OFF[ \t]+BINARY", data[:256]):
        raise MeshError("is a binary OFF file, which is not supported; save it as text OFF or PLY")
    table = TokenTable(normalize_text(data))
    header = _header(table)
    words = len(table.start) - int(table.line_ptr[min(header.row, table.num_lines)])
    check_counts(header.vertices, header.faces, words, "numbers after its header")
    warnings, is_stream = header.warnings, False
    try:
        vertex_first, face_first = _lines(table, header)
        if table.num_lines > header.row + header.vertices + header.faces:
            warnings += (f"data after the {header.faces} faces that the header announces",)
    # Numbers may also follow one another regardless of lines.
    except MeshError:
        stream = _stream(table, header)
        if stream is None:
            raise
        (vertex_first, face_first), is_stream = stream, True
    vertices = _vertices(table, header, vertex_first)
    corners, sizes = _faces(table, face_first)
    mesh = FileMesh(
        vertices,
        corners,
        sizes,
        vertex_lines=table.line_number(vertex_first),
        face_lines=table.line_number(face_first),
        warnings=warnings + warn_of_nonfinite(table, vertices, vertex_first),
    )
    if is_stream:
        vertex_counts = np.full(header.vertices, header.width)
        face_counts = np.zeros(header.faces, np.int64)
    else:
        split = header.row + header.vertices
        ends = table.line_ptr[header.row + 1 : split + header.faces + 1]
        vertex_counts = ends[: header.vertices] - vertex_first
        face_counts = ends[header.vertices :] - face_first - 1 - sizes
    behind = np.maximum(vertex_counts - header.position, 0)
    attributes = read_off_attributes(
        table,
        header.announced,
        (vertex_first + header.position, behind),
        (face_first + 1 + sizes, face_counts),
    )
    return replace(mesh, attributes=attributes)


@dataclass(frozen=True)
class _Header:
    """Counts, numbers per position and per vertex, and first data line of an OFF file."""

    vertices: int
    faces: int
    position: int
    width: int
    row: int
    warnings: tuple[str, ...]
    announced: frozenset[str]


def _header(table: TokenTable) -> _Header:
    words, row, position, width = table.line_words(0), 1, 3, 3
    warnings: tuple[str, ...] = ()
    announced: frozenset[str] = frozenset()
    match = _KEYWORD.fullmatch(words[0]) if words else None
    if match is None:
        warnings = ("the keyword OFF is missing from the header",)
    else:
        if match["any_dimension"]:
            raise MeshError("is an nOFF file of free dimension; save the surface as OFF")
        position = 4 if match["homogeneous"] else 3
        # Numbers behind a position: two of a texture, four of a color, three of a normal.
        extra = {"texture": 2, "color": 4, "normal": 3}
        announced = frozenset(name for name in extra if match[name])
        width = position + sum(extra[name] for name in announced)
        words = [match["rest"], *words[1:]] if match["rest"] else words[1:]
    if not words:
        words, row = table.line_words(1), 2
    if len(words) < 2 or not all(re.fullmatch(rb"[+-]?\d{1,18}", word) for word in words[:3]):
        shown = b" ".join(words)[:80].decode(errors="replace")
        raise MeshError(
            "is not an OFF file: expected the keyword OFF and the numbers of vertices, faces and "
            f"edges, got {shown!r}; check the file's extension"
        )
    return _Header(int(words[0]), int(words[1]), position, width, row, warnings, announced)


def _lines(table: TokenTable, header: _Header) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first words of vertices and faces, one per line."""
    lines = max(table.num_lines - header.row, 0)
    check_counts(header.vertices, header.faces, lines, "lines after its header")
    split = header.row + header.vertices
    first = table.line_ptr[split : split + header.faces]
    sizes = table.numbers(first, int)
    room = table.line_ptr[split + 1 : split + 1 + header.faces] - first - 1
    bad = (sizes < 0) | (sizes > room)
    if bad.any():
        face = int(bad.argmax())
        text = b" ".join(table.line_words(split + face))[:80].decode(errors="replace")
        raise MeshError(
            f"line {table.line_number(first[face])} (face {face}): expected the number of corners "
            f"and as many vertex numbers, got {text!r}; the file is truncated or damaged"
        )
    return table.line_ptr[header.row : split], first


def _stream(
    table: TokenTable, header: _Header
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return first words in a stream of numbers; None unless it has the announced length."""
    begin = int(table.line_ptr[min(header.row, table.num_lines)])
    word = begin + header.width * header.vertices
    if word > len(table.start):
        return None
    words = np.arange(word, len(table.start))
    if (table.numbers(words[:1], int) < 0).any():  # no need to read the others
        return None
    values = table.numbers(words, int).tolist()
    firsts, position = [], 0
    for _ in range(header.faces):  # one after the other: where a face begins depends on the last
        if position >= len(values) or values[position] < 0:
            return None
        firsts.append(word + position)
        position += values[position] + 1
    if position != len(values):
        return None
    vertex_first = begin + header.width * np.arange(header.vertices)
    return vertex_first, np.array(firsts, np.int64)


def _vertices(table: TokenTable, header: _Header, first: NDArray[np.int64]) -> NDArray[np.float64]:
    line = np.searchsorted(table.line_ptr, first, side="right")
    room = table.line_ptr[np.minimum(line, table.num_lines)] - first
    if header.vertices and len(np.unique(line)) < header.vertices:  # several on a line
        room = np.diff(np.append(first, len(table.start)))
    counts = np.minimum(room, header.position)
    vertices = read_rows(table, first, counts, header.position)
    if header.position == 4:
        with np.errstate(all="ignore"):  # a point at infinity is reported as not finite
            vertices = vertices[:, :3] / vertices[:, 3:]
    return vertices


def _faces(
    table: TokenTable, first: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    sizes = table.numbers(first, int)
    check_corners(sizes)
    return read_indices(table, concatenate_ranges(first + 1, sizes)), sizes


_Further = tuple[NDArray[np.int64], NDArray[np.int64]]  # first word and number of words per row


def read_off_attributes(
    table: TokenTable,
    announced: Collection[str],  # by the keyword: "normal", "color" and "texture"
    vertices: _Further,  # behind the positions
    faces: _Further,  # behind the corners
) -> FileAttributes:
    """Read attributes after positions and corners; malformed values are NaN with a warning."""
    # Order per vertex: normal, color, uv (The Geometry Center, "Geomview manual", format OFF).
    warnings: list[str] = []
    found: list[dict[str, NDArray[Any]]] = []
    for read in (
        partial(_of_vertices, table, announced, *vertices),
        partial(_of_faces, table, *faces),
    ):
        try:
            found.append(read(warnings))
        except MeshError as error:  # too many words that are no numbers
            warnings.append(f"colors are left out: the file {error}")
            found.append({})
    return FileAttributes(found[0], found[1], {}, tuple(warnings))


def _of_vertices(
    table: TokenTable,
    announced: Collection[str],
    first: NDArray[np.int64],
    counts: NDArray[np.int64],
    warnings: list[str],
) -> dict[str, NDArray[Any]]:
    if not counts.any() and not announced:
        return {}
    normals = _NORMAL * ("normal" in announced)
    rest = counts - normals - _UV * ("texture" in announced)
    fits = np.isin(rest, (_RGB, _RGBA)) if "color" in announced else rest == 0
    if not fits.all():
        warnings.append(
            f"{int((~fits).sum())} vertices have other numbers behind their position than the "
            "keyword announces; left out"
        )
    colored = np.where(fits, rest, 0)
    found: dict[str, NDArray[Any]] = {}
    if not fits.any():
        return found
    if normals:
        found["normal"] = read_values(table, first, _NORMAL * fits, "normal", warnings)
    if "color" in announced:
        color = read_colors(table, first + normals, colored, "vertices", warnings)
        found |= {} if color is None else {"color": color}
    if "texture" in announced:
        found["uv"] = read_values(table, first + normals + colored, _UV * fits, "uv", warnings)
    return found


def _of_faces(
    table: TokenTable, first: NDArray[np.int64], counts: NDArray[np.int64], warnings: list[str]
) -> dict[str, NDArray[Any]]:
    if not counts.any():
        return {}
    found: dict[str, NDArray[Any]] = {}
    colored = np.isin(counts, (_RGB, _RGBA))
    odd = int(((counts > 1) & ~colored).sum())
    if odd:
        warnings.append(f"{odd} faces have further numbers that are no color; left out")
    if colored.any():
        color = read_colors(table, first, counts * colored, "faces", warnings)
        found |= {} if color is None else {"color": color}
    if (counts == 1).any():
        index = read_values(table, first, counts * (counts == 1), "color index", warnings)
        found["color_index"] = index[:, 0]
    return found
