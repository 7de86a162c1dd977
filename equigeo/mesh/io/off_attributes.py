"""Colors, normals and texture coordinates of an OFF file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.file_attributes import FileAttributes
from equigeo.mesh.io.text_numbers import read_colors, read_values
from equigeo.mesh.io.token_table import TokenTable

_NORMAL, _UV = 3, 2  # numbers of each
_RGB, _RGBA = 3, 4


@dataclass(frozen=True)
class OffRows:
    """Positions of the additional numbers of vertices and faces in the text."""

    vertex_first: NDArray[np.int64]  # (vertices,) first word after the position
    vertex_counts: NDArray[np.int64]  # (vertices,) number of words
    face_first: NDArray[np.int64]  # (faces,) first word after the corners
    face_counts: NDArray[np.int64]  # (faces,) number of words
    normal: bool  # the three flags come from the keyword
    color: bool
    texture: bool


def read_off_attributes(table: TokenTable, rows: OffRows) -> FileAttributes:
    """Read attributes after positions and corners; malformed values are NaN with a warning."""
    # Order per vertex: normal, color, uv (The Geometry Center, "Geomview manual", format OFF).
    warnings: list[str] = []
    found: list[dict[str, NDArray[Any]]] = []
    for read in (_of_vertices, _of_faces):
        try:
            found.append(read(table, rows, warnings))
        except MeshError as error:  # too many words that are no numbers
            warnings.append(f"colors are left out: the file {error}")
            found.append({})
    return FileAttributes(found[0], found[1], {}, tuple(warnings))


def _of_vertices(table: TokenTable, rows: OffRows, warnings: list[str]) -> dict[str, NDArray[Any]]:
    counts = rows.vertex_counts
    if not counts.any() and not (rows.normal or rows.color or rows.texture):
        return {}
    rest = counts - _NORMAL * rows.normal - _UV * rows.texture
    fits = np.isin(rest, (_RGB, _RGBA)) if rows.color else rest == 0
    if not fits.all():
        warnings.append(
            f"{int((~fits).sum())} vertices have other numbers behind their position than the "
            "keyword announces; left out"
        )
    first, colored = rows.vertex_first, np.where(fits, rest, 0)
    found: dict[str, NDArray[Any]] = {}
    if not fits.any():
        return found
    if rows.normal:
        found["normal"] = read_values(table, first, _NORMAL * fits, "normal", warnings)
    if rows.color:
        color = read_colors(table, first + _NORMAL * rows.normal, colored, "vertices", warnings)
        found |= {} if color is None else {"color": color}
    if rows.texture:
        place = first + _NORMAL * rows.normal + colored
        found["uv"] = read_values(table, place, _UV * fits, "uv", warnings)
    return found


def _of_faces(table: TokenTable, rows: OffRows, warnings: list[str]) -> dict[str, NDArray[Any]]:
    counts = rows.face_counts
    if not counts.any():
        return {}
    found: dict[str, NDArray[Any]] = {}
    colored = np.isin(counts, (_RGB, _RGBA))
    odd = int(((counts > 1) & ~colored).sum())
    if odd:
        warnings.append(f"{odd} faces have further numbers that are no color; left out")
    if colored.any():
        color = read_colors(table, rows.face_first, counts * colored, "faces", warnings)
        found |= {} if color is None else {"color": color}
    if (counts == 1).any():
        index = read_values(table, rows.face_first, counts * (counts == 1), "color index", warnings)
        found["color_index"] = index[:, 0]
    return found
