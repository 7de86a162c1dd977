"""PLY, through trimesh, with the faces in file order."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from trimesh.exchange.ply import load_ply

from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.check_counts import check_counts
from equigeo.mesh.io.file_mesh import FileMesh
from equigeo.mesh.io.parse_with_trimesh import parse_with_trimesh

_INDEX_NAMES = ("vertex_index", "vertex_indices")
_PROBLEM = (
    "cannot be read as PLY: it is truncated, damaged, or mixes face sizes in binary form; "
    "export it again as text or as triangles"
)


def read_ply(data: bytes) -> FileMesh:
    r"""Read the positions and polygons of a PLY file, text or binary.

    trimesh parses the elements; its own triangles are not used, because it sorts polygons by size.

    Parameters
    ----------
    data : bytes
        The file.

    Returns
    -------
    FileMesh
        Without line numbers.

    Raises
    ------
    MeshError
        If the file is not PLY, is shorter than its header says, mixes face sizes in binary form, or
        has an index out of range.

    Examples
    --------
    >>> header = b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y"
    >>> header += b"\nproperty float z\nelement face 1\nproperty list uchar int vertex_indices"
    >>> read_ply(header + b"\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n").corners
    array([0, 1, 2])
    """
    counts = _check_header(data)
    parsed, notes = parse_with_trimesh(load_ply, data, _PROBLEM)
    elements = parsed["metadata"]["_ply_raw"]
    vertices = np.zeros((0, 3))
    if counts["vertex"]:
        vertex = _complete(elements, "vertex", counts)
        if not all(axis in vertex for axis in "xyz"):
            raise MeshError("has vertices without x, y and z; export the mesh again")
        vertices = np.stack([_column(vertex[axis], counts["vertex"]) for axis in "xyz"], axis=1)
    corners, sizes = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if counts["face"]:
        corners, sizes = _polygons(_complete(elements, "face", counts), counts["face"])
    return FileMesh(vertices.astype(np.float64), corners, sizes, warnings=notes)


def _check_header(data: bytes) -> dict[str, int]:
    """Counts of the header, once known to fit in the file."""
    end = data.find(b"end_header")
    if not data[:3].lower() == b"ply" or end < 0:
        raise MeshError("is not a PLY file: no 'ply' or no 'end_header'; check the extension")
    lines = re.findall(rb"^\s*element\s+(\S+)\s+(\S+)\s*$", data[:end], re.M)
    if not all(re.fullmatch(rb"\d{1,18}", count) for _, count in lines):
        raise MeshError("has an element in its header without a count; export the mesh again")
    counts = {"vertex": 0, "face": 0} | {name.decode("latin-1"): int(n) for name, n in lines}
    # No vertex takes less than 3 bytes and no face less than 1; text needs more.
    check_counts(counts["vertex"], counts["face"], len(data) - end, "bytes after its header")
    return counts


def _complete(elements: dict[str, Any], name: str, counts: dict[str, int]) -> dict[str, Any]:
    """Columns of an element, once known to have all its rows."""
    table = elements.get(name, {}).get("data")
    columns = {} if table is None else table
    if isinstance(table, np.ndarray):
        columns = {key: table[key] for key in table.dtype.names or ()}
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
    values = columns[names[0]]
    if values.dtype.names:  # binary: a count and as many indices in each row
        lengths, values = values["f0"], values["f1"]
        if (lengths != lengths[0]).any():
            raise MeshError("mixes face sizes in binary form; export it as text or as triangles")
    try:
        if values.dtype == object:
            rows = [np.atleast_1d(row) for row in values]
            return np.concatenate(rows).astype(np.int64), np.array([len(row) for row in rows])
        table = values.reshape(count, -1)
    except ValueError:
        raise MeshError("has face lines of unequal length; export the mesh again") from None
    if table.dtype.kind not in "iu":
        raise MeshError("numbers the corners of its faces by fractions; export the mesh again")
    return table.astype(np.int64).ravel(), np.full(count, table.shape[1], np.int64)
