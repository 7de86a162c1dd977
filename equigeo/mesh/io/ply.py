"""Reader and writer for PLY."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo._core.checks import check_shape
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_mesh
from equigeo.mesh.io.file_mesh import FileAttributes, FileMesh, check_corners, scale_colors
from equigeo.mesh.io.ply_elements import Column, Lists, read_elements, shown

_Columns = Mapping[str, Column]

# What programs call the columns of one attribute; alpha may be missing.
_GROUPS = (
    ("color", ("red", "green", "blue", "alpha")),
    ("color", ("red", "green", "blue")),
    ("normal", ("nx", "ny", "nz")),
    ("uv", ("s", "t")),
    ("uv", ("u", "v")),
    ("uv", ("texture_u", "texture_v")),
)
_COLORS = _GROUPS[0][1]

_WEDGE = "texcoord"  # a list of two numbers for each corner of a face
_NAMED = 4  # left out ones that a warning names

# Integers that torch has not, or only in part.
_WIDER: dict[str, np.dtype[Any]] = {"u2": np.dtype("i4"), "u4": np.dtype("i8")}
_INDEX_NAMES = ("vertex_index", "vertex_indices")
_STRIPS = "tristrips"  # an element of lists of vertices, -1 between strips


def read_ply(data: bytes) -> FileMesh:
    """Read the positions, polygons and other properties of a text or binary PLY file."""
    elements, counts, warnings = read_elements(data)
    vertex, face = (dict(elements.get(name, {})) for name in ("vertex", "face"))
    vertices = _positions(vertex) if counts.get("vertex") else np.zeros((0, 3))
    corners, sizes = np.zeros(0, np.int64), np.zeros(0, np.int64)
    read = {"vertex", "face"}
    if counts.get("face"):
        indices = _indices(face, "faces")
        corners, sizes = indices.values.astype(np.int64), indices.sizes
        check_corners(sizes)
    elif counts.get(_STRIPS):
        corners = strip_triangles(_indices(dict(elements[_STRIPS]), "strips"))
        sizes, face = np.full(len(corners) // 3, 3, np.int64), {}
        read.add(_STRIPS)
    others = {name: rows for name, rows in counts.items() if name not in read}
    mesh = FileMesh(vertices, corners, sizes, warnings=warnings)
    return replace(mesh, attributes=read_ply_attributes(vertex, face, sizes, others))


def _positions(vertex: dict[str, Column]) -> NDArray[np.float64]:
    columns = [vertex.pop(axis, None) for axis in "xyz"]
    if not all(isinstance(column, np.ndarray) for column in columns):
        raise MeshError("has vertices without x, y and z; export the mesh again")
    with np.errstate(all="ignore"):  # a signaling NaN of float32 complains when it is widened
        return np.stack(columns, axis=1).astype(np.float64)  # type: ignore[arg-type]


def _indices(
    columns: dict[str, Column],
    what: str,  # rows, for the message
) -> Lists:
    """Remove the lists of vertex indices from columns, by name or as the first list of integers."""
    for name in (*_INDEX_NAMES, *columns):
        values = columns.get(name)
        if isinstance(values, Lists) and values.values.dtype.kind in "iu":
            del columns[name]
            return values
    raise MeshError(f"has {what} without a list of vertex indices; export the mesh again")


def strip_triangles(strips: Lists) -> NDArray[np.int64]:
    """Return the corners of triangles in strips, without those that only turn a strip."""
    # Each row ends a strip as -1 does. Every other triangle of a strip is wound the other way.
    ends = np.cumsum(strips.sizes)
    index = np.insert(strips.values.astype(np.int64), ends, -1)
    place = np.arange(len(index))
    start = np.maximum.accumulate(np.where(index == -1, place + 1, 0))
    first = place[:-2][(index[:-2] != -1) & (index[1:-1] != -1) & (index[2:] != -1)]
    odd = (first - start[first]) % 2
    found = np.stack([index[first], index[first + 1 + odd], index[first + 2 - odd]], axis=1)
    is_triangle = (found != np.roll(found, 1, axis=1)).all(axis=1)
    return found[is_triangle].ravel()


def read_ply_attributes(
    vertex: _Columns,  # properties by name
    face: _Columns,
    sizes: NDArray[np.int64],  # (faces,) corners of each face
    others: Mapping[str, int],  # number of rows of other elements
) -> FileAttributes:
    """Read properties other than positions and indices; skip malformed ones with a warning."""
    left_out = [f"element {shown(name)}" for name, rows in others.items() if rows]
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
            values = _scaled(np.asarray(values), columns, parts)
        if values is None:
            left_out.append(f"{kind} colors out of range")
        else:
            found[name] = values.astype(np.float64)
        for part in parts:
            del scalars[part]
    for name, scalar in scalars.items():
        if scalar is None or name in found or not name.isprintable():
            why = "a list" if scalar is None else "no name of its own"
            left_out.append(f"{kind} property {shown(name)}, {why}")
        elif name in _COLORS and (scalar := _scaled(scalar, columns, (name,))) is None:
            left_out.append(f"{kind} colors out of range")
        else:
            found[name] = scalar
    return found


def _scaled(
    values: NDArray[Any], columns: _Columns, parts: Sequence[str]
) -> NDArray[np.float64] | None:
    """Scale the colors of some columns to [0, 1]; return None if any is out of range."""
    words = all(_stored(columns[part]).dtype.str[1:] == "u2" for part in parts)
    return scale_colors(np.asarray(values, np.uint16 if words else None))


def _stored(column: Column) -> NDArray[Any]:
    return column.values if isinstance(column, Lists) else column


def _scalar(column: Column) -> NDArray[Any] | None:
    """Return a number per row, (rows,), in a dtype that PyTorch supports; None for lists."""
    if isinstance(column, Lists) and (column.sizes != 1).any():
        return None
    values = _stored(column)
    native: np.dtype[Any] = values.dtype.newbyteorder("=")
    native = _WIDER.get(native.str[1:], native)
    with np.errstate(all="ignore"):  # a signaling NaN complains when it is copied
        return values.astype(native)


def _wedges(values: Column, sizes: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Return texture coordinates (corners, 2); None unless lists have two numbers per corner."""
    if not isinstance(values, Lists) or not np.array_equal(values.sizes, 2 * sizes):
        return None
    return values.values.astype(np.float64).reshape(-1, 2)


def format_ply(
    mesh: TriangleMesh | FileMesh,
    *,
    face_colors: Tensor | Sequence[Sequence[int]] | None = None,  # (faces, 3) from 0 to 255
    face_labels: Tensor | Sequence[int] | None = None,  # (faces,) 32-bit integers
    face_values: Mapping[str, Tensor] = MappingProxyType({}),  # (faces,) floats by name
    vertex_values: Mapping[str, Tensor] = MappingProxyType({}),  # (vertices,)
) -> bytes:
    """Format a mesh, or the polygons of a file, as an ASCII PLY file."""
    if isinstance(mesh, FileMesh):
        vertices, corners, sizes = mesh.vertices, mesh.corners, mesh.sizes
    else:
        check_mesh(mesh)
        vertices, corners = mesh.vertices.double().numpy(force=True), mesh.faces.numpy(force=True)
        sizes = np.full(len(corners), 3)
    columns, properties = [torch.zeros(len(sizes), 0, dtype=torch.long)], []
    if face_colors is not None:
        columns.append(_colors(face_colors, len(sizes)))
        properties += [f"property uchar {name}" for name in ("red", "green", "blue")]
    if face_labels is not None:
        labels = torch.as_tensor(face_labels, dtype=torch.long)
        check_shape(labels, "face_labels", (len(sizes),))
        if bool((labels != labels.int()).any()):
            raise ValueError("face_labels must be integers of 32 bits, from -2^31 to 2^31 - 1")
        columns.append(labels[:, None])
        properties.append("property int label")
    face_names, face_columns = _doubles(face_values, len(sizes))
    vertex_names, vertex_columns = _doubles(vertex_values, len(vertices))
    header = [
        "ply",
        "format ascii 1.0",
        f"element vertex {len(vertices)}",
        *(f"property double {axis}" for axis in ("x", "y", "z", *vertex_names)),
        f"element face {len(sizes)}",
        f"property list {'uchar' if sizes.max(initial=0) < 256 else 'int'} int vertex_indices",
        *properties,
        *(f"property double {name}" for name in face_names),
        "end_header",
    ]
    # repr gives the shortest text that reads back as the same number
    points = [" ".join(map(repr, row)) for row in np.c_[vertices, vertex_columns].tolist()]
    corner = iter(corners.ravel().tolist())
    more = (sizes.tolist(), torch.cat(columns, dim=1).tolist(), face_columns.tolist())
    faces = [
        " ".join(map(str, [size, *islice(corner, size), *row, *values]))
        for size, row, values in zip(*more, strict=True)
    ]
    return "\n".join([*header, *points, *faces, ""]).encode("ascii")


def _doubles(given: Mapping[str, Tensor], rows: int) -> tuple[list[str], NDArray[np.float64]]:
    """Return distinct names in ASCII that the format does not use, and the columns."""
    names: list[str] = []
    for name, values in given.items():
        check_shape(values, name, (rows,))
        name = re.sub(r"\W+", "_", name, flags=re.ASCII) or "_"
        while name in {*"xyz", *_INDEX_NAMES, "red", "green", "blue", "label", *names}:
            name += "_"
        names.append(name)
    columns = [
        np.zeros((rows, 0)),
        *(values.double().numpy(force=True) for values in given.values()),
    ]
    return names, np.column_stack(columns)


def _colors(given: Tensor | Sequence[Sequence[int]], num_faces: int) -> Tensor:
    colors = torch.as_tensor(given, dtype=torch.long)
    check_shape(colors, "face_colors", (num_faces, 3))
    if ((colors < 0) | (colors > 255)).any():
        raise ValueError("face_colors must be from 0 to 255")
    return colors
