"""Colors, normals, texture coordinates and any other properties of a PLY file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.io.file_attributes import FileAttributes, scale_colors

_Columns = Mapping[str, Any]

# What programs call the columns of one attribute; alpha may be missing.
_GROUPS = (
    ("color", ("red", "green", "blue", "alpha")),
    ("color", ("red", "green", "blue")),
    ("normal", ("nx", "ny", "nz")),
    ("uv", ("s", "t")),
    ("uv", ("u", "v")),
    ("uv", ("texture_u", "texture_v")),
)
_WEDGE = "texcoord"  # a list of two numbers for each corner of a face
_NAMED = 4  # left out ones that a warning names
_LONGEST = 32  # characters of a name in it
# Integers that torch has not, or only in part.
_WIDER = {"u2": np.dtype("i4"), "u4": np.dtype("i8")}


def read_ply_attributes(
    vertex: _Columns,  # properties by name, as parsed by trimesh
    face: _Columns,  # properties by name
    sizes: NDArray[np.int64],  # (faces,) corners of each face
    others: Mapping[str, int],  # number of rows of other elements
) -> FileAttributes:
    """Read properties other than positions and indices; skip malformed ones with a warning."""
    left_out = [f"element {_shown(name)}" for name, rows in others.items() if rows]
    corners = {}
    face = dict(face)
    if _WEDGE in face:
        uv = _wedges(face[_WEDGE], sizes)
        if uv is not None:
            corners["uv"] = uv
            del face[_WEDGE]
    vertices = _element(vertex, left_out, "vertex")
    faces = _element(face, left_out, "face")
    more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    text = f"not read: {', '.join(left_out[:_NAMED])}{more}"
    return FileAttributes(vertices, faces, corners, (text,) if left_out else ())


def _element(columns: _Columns, left_out: list[str], kind: str) -> dict[str, NDArray[Any]]:
    """Return the attributes of one element and append skipped properties to the list."""
    scalars = {name: _scalar(values) for name, values in columns.items()}
    found: dict[str, NDArray[Any]] = {}
    for name, parts in _GROUPS:
        members = [scalars.get(part) for part in parts]
        if name in found or any(member is None for member in members):
            continue
        values: NDArray[Any] | None = np.stack(members, axis=1)  # type: ignore[arg-type]
        if name == "color":
            values = scale_colors(np.asarray(values))
        if values is None:
            left_out.append(f"{kind} colors out of range")
        else:
            found[name] = values.astype(np.float64)
        for part in parts:
            del scalars[part]
    for name, scalar in scalars.items():
        if scalar is None or name in found or not name.isprintable():
            why = "a list" if scalar is None else "no name of its own"
            left_out.append(f"{kind} property {_shown(name)}, {why}")
        else:
            found[name] = scalar
    return found


def _scalar(values: Any) -> NDArray[Any] | None:
    """Return a number per row, (rows,), in a dtype that PyTorch supports; None for lists."""
    values = np.atleast_1d(values)
    if values.dtype.names or values.dtype == object:
        return None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        return None
    native = values.dtype.newbyteorder("=")
    with np.errstate(all="ignore"):  # a signaling NaN complains when it is copied
        return values.astype(_WIDER.get(native.str[1:], native))


def _wedges(values: Any, sizes: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Return texture coordinates (corners, 2); None unless lists have two numbers per corner."""
    if values.dtype.names:
        values = values[values.dtype.names[-1]]
    if values.dtype == object:
        rows = [np.atleast_1d(row) for row in values]
        lengths = np.array([len(row) for row in rows], np.int64)
        values = np.concatenate(rows) if rows else np.zeros(0)
    else:
        values = values.reshape(len(sizes), -1)
        lengths = np.full(len(sizes), values.shape[1])
    if len(lengths) != len(sizes) or (lengths != 2 * sizes).any():
        return None
    flat: NDArray[np.float64] = values.astype(np.float64).reshape(-1, 2)
    return flat


def _shown(name: str) -> str:
    return repr(name[:_LONGEST])
