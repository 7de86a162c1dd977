"""Colors, normals and texture coordinates of a GLB file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.file_attributes import scale_colors

# Attributes that are read, and the types that they may have.
_KINDS = {
    "COLOR_0": ("color", ("VEC3", "VEC4")),
    "NORMAL": ("normal", ("VEC3",)),
    "TEXCOORD_0": ("uv", ("VEC2",)),
}
_NAMED = 5  # warnings that are given one by one
_LONGEST = 40  # characters of a name in them


class GlbAttributes:
    """Reader of the attributes of scene parts; malformed attributes are skipped with a note."""

    def __init__(
        self,
        read: Callable[[object, tuple[str, ...]], NDArray[Any]],  # an accessor as (count, width)
    ) -> None:
        self._read = read
        self.notes: dict[str, None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the first notes and their total number."""
        notes = list(self.notes)
        more = len(notes) - _NAMED
        return (*notes[:_NAMED], *([f"{more} more attributes are not read"] if more > 0 else ()))

    def wanted(self, attributes: Mapping[str, object]) -> dict[str, object]:
        """Return the accessors of the supported attributes of a part."""
        for key in attributes:
            if key not in _KINDS and key != "POSITION":
                self.notes[f"not read: attribute {key[:_LONGEST]!r}"] = None
        return {key: attributes[key] for key in _KINDS if key in attributes}

    def of_part(
        self, wanted: Mapping[str, object], vertices: int, transform: NDArray[np.float64]
    ) -> dict[str, NDArray[np.float64]]:
        """Return the attributes (vertices, width) of a part after its (4, 4) transform."""
        found: dict[str, NDArray[np.float64]] = {}
        for key, number in wanted.items():
            name, kinds = _KINDS[key]
            try:
                values = self._read(number, kinds)
            except MeshError as error:
                self.notes[f"{name} of a mesh is left out: the file {error}"] = None
                continue
            if len(values) != vertices:
                self.notes[f"{name} of a mesh is left out: not one for each vertex"] = None
                continue
            scaled = scale_colors(values) if name == "color" else values
            if scaled is None:
                self.notes["color of a mesh is left out: out of range"] = None
                continue
            with np.errstate(all="ignore"):  # a signaling NaN complains when it is widened
                scaled = scaled.astype(np.float64)
            found[name] = _turned(scaled, transform) if name == "normal" else scaled
        return found


def _turned(normals: NDArray[np.float64], transform: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the normals of a transformed surface, rescaled to length 1."""
    if np.array_equal(transform[:3, :3], np.eye(3)):  # to the bit
        return normals
    x, y, z = transform[:3, :3]
    with np.errstate(all="ignore"):
        # The matrix of cofactors: the inverse transpose without its division.
        turned = normals @ np.stack([np.cross(y, z), np.cross(z, x), np.cross(x, y)]).T
        turned *= np.sign(np.dot(x, np.cross(y, z)))
        lengths = np.linalg.norm(turned, axis=1, keepdims=True)
        unit: NDArray[np.float64] = np.where(lengths > 0, turned / lengths, 0.0)
    return unit
