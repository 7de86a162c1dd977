"""Reader for PLY, based on trimesh, with the faces in file order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from trimesh.exchange.ply import load_ply

from equigeo._core.checks import check_shape
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_mesh
from equigeo.mesh.io.file_mesh import (
    MAX_LINE,
    MAX_PLY_HEADER,
    MAX_PLY_PROPERTIES,
    FileAttributes,
    FileMesh,
    check_corners,
    check_counts,
    parse_with_trimesh,
    scale_colors,
)

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
_INDEX_NAMES = ("vertex_index", "vertex_indices")
_HIDDEN = "_"  # before the names of all other properties
_END = re.compile(rb"^end_header[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_ASCII = re.compile(rb"^format[ \t]+ascii", re.MULTILINE | re.IGNORECASE)
_RANGES = {
    name: range(-(2 ** (bits - 1)) if signed else 0, 2 ** (bits - signed))
    for bits, names in ((8, ("char", "int8")), (16, ("short", "int16")), (32, ("int", "int32")))
    for name, signed in [(names[0], 1), (names[1], 1), (f"u{names[0]}", 0), (f"u{names[1]}", 0)]
}

_PROBLEM = (
    "cannot be read as PLY: it is truncated, damaged, or mixes face sizes in binary form; "
    "export it again as text or as triangles"
)


def read_ply(data: bytes) -> FileMesh:
    """Read the positions, polygons and other properties of a text or binary PLY file."""
    header, counts, body = _split(data)
    parsed, notes = _parsed(header, body)
    # Raw elements: the triangles of trimesh are sorted by polygon size.
    elements = parsed["metadata"]["_ply_raw"]
    vertices = np.zeros((0, 3))
    vertex, face = {}, {}
    if counts["vertex"]:
        vertex = _complete(elements, "vertex", counts)
        if not all(axis in vertex for axis in "xyz"):
            raise MeshError("has vertices without x, y and z; export the mesh again")
        columns = [_column(vertex.pop(axis), counts["vertex"]) for axis in "xyz"]
        vertices = np.stack(columns, axis=1)
    corners, sizes = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if counts["face"]:
        face = _complete(elements, "face", counts)
        corners, sizes = _polygons(face, counts["face"])
    others = {name: rows for name, rows in counts.items() if name not in ("vertex", "face")}
    mesh = FileMesh(vertices.astype(np.float64), corners, sizes, warnings=notes)
    return replace(mesh, attributes=read_ply_attributes(vertex, face, sizes, others))


def _parsed(header: bytes, body: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Parse by trimesh; drop the line ending that some programs write after binary data."""
    try:
        return parse_with_trimesh(load_ply, header + body, _PROBLEM)
    except MeshError:
        shorter = body.removesuffix(b"\n").removesuffix(b"\r")
        if shorter == body or _ASCII.search(header):
            raise
        return parse_with_trimesh(load_ply, header + shorter, _PROBLEM)


def _split(data: bytes) -> tuple[bytes, dict[str, int], bytes]:
    """Return the header without comments, the validated counts and the body."""
    end = _END.search(data, 0, MAX_PLY_HEADER)
    if not re.match(rb"(?i:ply)\s", data):
        raise MeshError("is not a PLY file: no 'ply' at its start; check the extension")
    if end is None:
        raise MeshError(f"has no 'end_header' in its first {MAX_PLY_HEADER} bytes; export it again")
    lines = [line.strip() for line in data[: end.start()].splitlines()]
    shape = [line for line in lines if line.startswith((b"element", b"property"))]
    if len(shape) > MAX_PLY_PROPERTIES:
        raise MeshError(
            f"has {len(shape)} elements and properties, more than {MAX_PLY_PROPERTIES}; "
            "export positions and faces alone"
        )
    counts = _counts(shape)
    body = data[end.end() :]
    # No vertex takes less than 3 bytes and no face less than 1; text needs more.
    check_counts(counts["vertex"], counts["face"], len(body), "bytes after its header")
    kind = [line for line in lines if line.startswith(b"format")][:1]
    if b"ascii" in b"".join(kind).lower():
        body = _announced_lines(body, sum(counts.values()))
        _check_lists(body, shape)
    shape = [_hidden(line) for line in shape]
    return b"\n".join([b"ply", *kind, *shape, b"end_header\n"]), counts, body


def _hidden(line: bytes) -> bytes:
    """Rename properties of a header line that trimesh would interpret as colors or textures."""
    words = line.split()
    # trimesh rejects a file with unexpected color or texture properties.
    if words[0] == b"property" and words[-1].decode("latin-1") not in (*"xyz", *_INDEX_NAMES):
        words[-1] = _HIDDEN.encode() + words[-1]
    return b" ".join(words)


def _counts(shape: list[bytes]) -> dict[str, int]:
    words = [line.split() for line in shape if line.startswith(b"element")]
    if not all(len(w) == 3 and re.fullmatch(rb"\d{1,18}", w[2]) for w in words):
        raise MeshError("has an element in its header without a count; export the mesh again")
    return {"vertex": 0, "face": 0} | {w[1].decode("latin-1"): int(w[2]) for w in words}


def _announced_lines(body: bytes, count: int) -> bytes:
    """Return the lines that the header announces, after a check of their lengths."""
    ends = np.flatnonzero(np.frombuffer(body, np.uint8) == ord("\n"))[:count]
    ends = np.append(ends, len(body))[:count]  # the last line may lack its end
    longest = int(np.diff(ends, prepend=-1).max(initial=0))
    if longest > MAX_LINE:
        raise MeshError(
            f"has a line of {longest} bytes, more than {MAX_LINE}; cut its faces into triangles"
        )
    return body[: int(ends[-1]) + 1] if len(ends) else b""


def _check_lists(body: bytes, shape: list[bytes]) -> None:
    """Raise for text rows with missing numbers or numbers out of range, which trimesh misreads."""
    lines = iter(body.splitlines())
    elements: list[tuple[bytes, int, list[bytes]]] = []
    for words in map(bytes.split, shape):
        if words[0] == b"element":
            elements.append((words[1], int(words[2]), []))
        elif elements:
            elements[-1][2].append(words[1] if len(words) > 1 else b"")
    for name, rows, kinds in elements:
        ranges = [_RANGES.get(kind.decode("latin-1")) for kind in kinds]
        is_checked = b"list" in kinds or any(ranges)
        for number, line in enumerate(islice(lines, rows)):
            problem = _problem(line.split(), kinds, ranges) if is_checked else ""
            if problem:
                raise MeshError(
                    f"is truncated or damaged: row {number} of {name.decode('latin-1')!r} has "
                    f"{problem}"
                )


def _problem(words: list[bytes], kinds: list[bytes], ranges: list[range | None]) -> str:
    """Return the defect of a line; empty if every number is valid."""
    place = 0
    for kind, allowed in zip(kinds, ranges, strict=True):
        if place < len(words):
            word = words[place]
            if kind == b"list":
                if not word.isdigit():
                    return ""  # which trimesh refuses
                place += int(word)
            elif allowed and word.removeprefix(b"-").isdigit() and int(word[:25]) not in allowed:
                return f"{word[:25].decode()} for a number of type {kind.decode('latin-1')}"
        place += 1
    return "" if place <= len(words) else "fewer numbers than it announces"


def _complete(elements: dict[str, Any], name: str, counts: dict[str, int]) -> dict[str, Any]:
    """Return the columns of an element after a check that all rows exist."""
    table = elements.get(name, {}).get("data")
    names = (table.dtype.names or ()) if isinstance(table, np.ndarray) else (table or ())
    columns = {key.removeprefix(_HIDDEN): table[key] for key in names}
    rows = min((len(np.atleast_1d(column)) for column in columns.values()), default=0)
    if rows != counts[name] and counts[name] != 1:  # trimesh squeezes a single row
        raise MeshError(
            f"announces {counts[name]} of '{name}' but holds {rows}: the file is truncated or its "
            "header is wrong; export the mesh again"
        )
    return columns


def _column(values: Any, count: int) -> NDArray[np.float64]:
    try:
        with np.errstate(all="ignore"):  # a signaling NaN of float32 complains when it is widened
            return np.asarray(values, np.float64).reshape(count)
    except (TypeError, ValueError):
        raise MeshError("has vertex lines of unequal length; export the mesh again") from None


def _polygons(columns: dict[str, Any], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    names = [name for name in _INDEX_NAMES if name in columns] or list(columns)[:1]
    if not names:
        raise MeshError("has faces without vertex indices; export the mesh again")
    values = columns.pop(names[0])
    if values.dtype.names:  # binary: a count and as many indices in each row
        lengths, values = values["f0"], values["f1"]
        if (lengths != lengths[0]).any():
            raise MeshError("mixes face sizes in binary form; export it as text or as triangles")
    try:
        if values.dtype == object:
            rows = [np.atleast_1d(row) for row in values]
            sizes = np.array([len(row) for row in rows])
            check_corners(sizes)
            return np.concatenate(rows).astype(np.int64), sizes
        table = values.reshape(count, -1)
    except ValueError:
        raise MeshError("has face lines of unequal length; export the mesh again") from None
    if table.dtype.kind not in "iu":
        raise MeshError("numbers the corners of its faces by fractions; export the mesh again")
    sizes = np.full(count, table.shape[1], np.int64)
    check_corners(sizes)
    return table.astype(np.int64).ravel(), sizes


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


def format_ply(
    mesh: TriangleMesh | FileMesh,
    *,
    face_colors: Tensor | Sequence[Sequence[int]] | None = None,  # (faces, 3) from 0 to 255
    face_labels: Tensor | Sequence[int] | None = None,  # (faces,) 32-bit integers
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
    header = [
        "ply",
        "format ascii 1.0",
        f"element vertex {len(vertices)}",
        *(f"property double {axis}" for axis in "xyz"),
        f"element face {len(sizes)}",
        f"property list {'uchar' if sizes.max(initial=0) < 256 else 'int'} int vertex_indices",
        *properties,
        "end_header",
    ]
    # repr gives the shortest text that reads back as the same number
    points = [" ".join(map(repr, row)) for row in vertices.tolist()]
    corner = iter(corners.ravel().tolist())
    more = zip(sizes.tolist(), torch.cat(columns, dim=1).tolist(), strict=True)
    faces = [" ".join(map(str, [size, *islice(corner, size), *row])) for size, row in more]
    return "\n".join([*header, *points, *faces, ""]).encode("ascii")


def _colors(given: Tensor | Sequence[Sequence[int]], num_faces: int) -> Tensor:
    colors = torch.as_tensor(given, dtype=torch.long)
    check_shape(colors, "face_colors", (num_faces, 3))
    if ((colors < 0) | (colors > 255)).any():
        raise ValueError("face_colors must be from 0 to 255")
    return colors
