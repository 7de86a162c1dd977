"""Reader for STL, based on trimesh, with equal corners merged into one vertex."""

from __future__ import annotations

import numpy as np

from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.connectivity import coincident_points
from equigeo.mesh.io.file_mesh import MAX_SOLIDS, FileMesh, parse_with_trimesh

_PROBLEM = "cannot be read as STL: it is truncated or damaged; export the mesh again"
_HEADER, _ROW = 84, 50  # bytes of a binary file: before the triangles, and of each


def read_stl(data: bytes) -> FileMesh:
    """Read the triangles of a text or binary STL file of one or several solids."""
    from trimesh.exchange.stl import load_stl  # which other formats do without

    data, notes = _exact_binary(data)
    text = None if notes is not None else data.decode(errors="replace").lower()
    if text is not None and text.count("endsolid") > MAX_SOLIDS:
        raise MeshError(
            f"has {text.count('endsolid')} solids, more than {MAX_SOLIDS}; export it as one"
        )
    parsed, caught = parse_with_trimesh(load_stl, text.encode() if text else data, _PROBLEM)
    solids = [parsed] if "vertices" in parsed else list(parsed["geometry"].values())
    with np.errstate(all="ignore"):  # a signaling NaN of float32 complains when it is widened
        corners = [np.asarray(solid["vertices"], np.float64).reshape(-1, 3) for solid in solids]
    points = np.concatenate([np.zeros((0, 3)), *corners])
    if text is not None and text.count("endfacet") * 3 != len(points):
        raise MeshError(
            f"closes {text.count('endfacet')} facets but gives {len(points)} corners: the file is "
            "truncated or damaged; export the mesh again"
        )
    # The format repeats every corner, so corners at equal positions are one vertex by design.
    first, vertex = np.unique(coincident_points(points, 0.0), return_inverse=True)
    sizes = np.full(len(points) // 3, 3, np.int64)
    return FileMesh(points[first], vertex.reshape(-1), sizes, warnings=(notes or ()) + caught)


def _exact_binary(data: bytes) -> tuple[bytes, tuple[str, ...] | None]:
    """Cut a binary file to the length in its header; return None as notes for a text file."""
    if not data.strip():
        raise MeshError("is empty; export the mesh again")
    is_text = data.lstrip()[:5].lower() == b"solid" and b"\0" not in data
    if len(data) >= _HEADER:
        count = int.from_bytes(data[80:_HEADER], "little")
        expected = _HEADER + _ROW * count
        if len(data) == expected:
            return data, ()
        if not is_text and len(data) > expected and count:
            return data[:expected], (f"{len(data) - expected} bytes after the last triangle",)
        if not is_text:
            raise MeshError(
                f"announces {count} triangles, {expected} bytes, but has {len(data)} bytes: it is "
                "truncated or not an STL file; export the mesh again"
            )
    if not is_text:
        raise MeshError("is not an STL file: neither 'solid' nor a binary header; check it")
    return data, None
