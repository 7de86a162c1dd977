"""Colors, normals and texture coordinates of an OFF file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.file_attributes import FileAttributes, scale_colors
from equigeo.mesh.io.text_numbers import read_rows
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
        found["normal"] = _numbers(table, first, _NORMAL * fits, "normal", warnings)
    if rows.color:
        color = _colors(table, first + _NORMAL * rows.normal, colored, "vertices", warnings)
        found |= {} if color is None else {"color": color}
    if rows.texture:
        place = first + _NORMAL * rows.normal + colored
        found["uv"] = _numbers(table, place, _UV * fits, "uv", warnings)
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
        color = _colors(table, rows.face_first, counts * colored, "faces", warnings)
        found |= {} if color is None else {"color": color}
    if (counts == 1).any():
        index = _numbers(table, rows.face_first, counts * (counts == 1), "color index", warnings)
        found["color_index"] = index[:, 0]
    return found


def _colors(
    table: TokenTable,
    first: NDArray[np.int64],
    counts: NDArray[np.int64],
    owners: str,
    warnings: list[str],
) -> NDArray[np.float64] | None:
    values = _numbers(table, first, counts, "color", warnings)
    scaled = scale_colors(values)
    if scaled is None:
        warnings.append(f"colors of {owners} are neither from 0 to 1 nor from 0 to 255; left out")
        return None
    scaled[counts == _RGB, _RGB:] = 1.0  # opaque, where others have an opacity
    return scaled


def _numbers(
    table: TokenTable,
    first: NDArray[np.int64],
    counts: NDArray[np.int64],
    name: str,
    warnings: list[str],
) -> NDArray[np.float64]:
    """Return rows of numbers, NaN where missing, with a warning for words that are not numbers."""
    values = read_rows(table, first, counts, int(counts.max(initial=0)))
    wanted = np.arange(values.shape[1]) < counts[:, None]
    bad = int((np.isnan(values) & wanted).any(axis=1).sum())
    if bad:
        warnings.append(f"{bad} times the {name} is no number: NaN there")
    return values
