"""Attributes of vertices, faces and corners in a mesh file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Values = Mapping[str, NDArray[Any]]

_BYTE, _WORD = 255.0, 65535.0  # full colors in integers of 8 and 16 bits
_ROUNDING = 1e-6  # by how much a color may exceed 1: text has six digits


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
