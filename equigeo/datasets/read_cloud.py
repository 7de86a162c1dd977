"""Reader for a single point cloud."""

from __future__ import annotations

import hashlib
import zlib
from codecs import BOM_UTF8
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from equigeo.datasets.data_folder import MESH_SUFFIXES
from equigeo.datasets.registry.eliminate_samples import surface_samples
from equigeo.datasets.save_arrays import DAMAGE, MAX_BYTES, check_unpacked_size
from equigeo.datasets.shapes.cached_meshes import cached_arrays
from equigeo.mesh import MeshError
from equigeo.mesh.io.file_mesh import FileMesh
from equigeo.mesh.io.read_mesh_file import read_mesh_file

Points = NDArray[np.float64]

CLOUD_SUFFIXES: Final = tuple(sorted((".npy", ".npz", ".xyz", *MESH_SUFFIXES)))
"""Endings of the files that are read, in lower case."""

_FARTHEST = 1e15  # of a coordinate: squares of distances stay finite in float32


def read_cloud(path: Path, number: int) -> Points:
    """Read the points of a file, or sample points of its surface.

    Parameters
    ----------
    path : Path
        ``.npy`` array (points, 3 or more); ``.npz`` with such an array, named ``points`` or the
        only one; ``.xyz`` text with one point per line, separated by spaces or commas; or a mesh
        file (``.off``, ``.obj``, ``.ply``, ``.stl``, ``.glb``). Columns after the third are
        ignored.
    number : int
        Points to sample on a mesh with faces, by weighted sample elimination (blue noise). Samples
        depend only on the content of the file and are cached. Meshes without faces give their
        vertices.

    Returns
    -------
    array, (points, 3), float64
        In the units of the file.

    Raises
    ------
    ValueError
        If the file is unusable. The message does not name the file.

    Examples
    --------
    >>> read_cloud(Path("scan.las"), 100)
    Traceback (most recent call last):
        ...
    ValueError: has the extension '.las'; expected .glb, .npy, .npz, .obj, .off, .ply, .stl, .xyz
    """
    suffix = path.suffix.lower()
    if suffix not in CLOUD_SUFFIXES:
        known = ", ".join(CLOUD_SUFFIXES)
        raise ValueError(f"has the extension {path.suffix!r}; expected {known}")
    if suffix in MESH_SUFFIXES:
        return _of_mesh(path, number)
    if not path.is_file():
        raise ValueError("is no regular file" if path.exists() else "does not exist")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"has more than {MAX_BYTES} bytes")
    try:
        points = _of_text(path) if suffix == ".xyz" else _of_arrays(path)
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror or error})") from error
    return _checked(points)


def _of_mesh(path: Path, number: int) -> Points:
    mesh = read_mesh_file(path)
    vertices = _checked(np.asarray(mesh.vertices, dtype=np.float64))
    if not len(mesh.sizes):
        return vertices
    content = hashlib.sha256(path.read_bytes()).hexdigest()
    return cached_arrays(
        f"surface_{content[:32]}_{number}.npz",
        None,
        lambda: {"points": _sampled(mesh, vertices, number, content)},
        lambda arrays: _checked(arrays["points"]),
    )


def _sampled(mesh: FileMesh, vertices: Points, number: int, content: str) -> Points:
    triangles, _ = mesh.fan_triangles()
    if not len(triangles):
        raise MeshError("has faces, and no triangle among them")
    if triangles.min() < 0 or triangles.max() >= len(vertices):
        raise MeshError(f"has a face with a vertex that is none of its {len(vertices)}")
    seed = np.random.SeedSequence([0, zlib.crc32(content.encode()), number])
    try:
        return surface_samples(vertices[triangles], number, np.random.default_rng(seed))
    except ValueError as error:
        raise MeshError(f"cannot be sampled: {error}") from error


def _of_arrays(path: Path) -> NDArray[np.generic]:
    try:
        if path.suffix.lower() == ".npz":
            check_unpacked_size(path)
        if path.suffix.lower() == ".npy":
            # As a map of the file, whose size its header must not exceed.
            return np.array(np.load(path, allow_pickle=False, mmap_mode="r"))
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            name = "points" if "points" in found.files else "".join(found.files[:1])
            if name != "points" and len(found.files) != 1:
                raise ValueError(f"has {len(found.files)} arrays, none of them called 'points'")
            return np.asarray(found[name])
    except OSError:
        raise
    except (*DAMAGE, MemoryError) as error:
        raise ValueError(f"cannot be read as an array: {error}") from error


def _of_text(path: Path) -> NDArray[np.generic]:
    rows = []
    for number, line in enumerate(path.read_bytes().removeprefix(BOM_UTF8).splitlines(), 1):
        text = line.partition(b"#")[0].strip()
        words = text.replace(b",", b" ").split()
        if not words:
            continue
        if len(words) > 3 and any(len(part.split()) > 1 for part in text.split(b",")[1:]):
            raise ValueError(
                f"line {number} has commas and blanks between numbers; write 1.5, not 1,5"
            )
        if b"_" in text:  # which Python takes for a separator of digits
            raise ValueError(f"line {number} has a coordinate that is no number")
        try:
            rows.append([float(word) for word in words[:3]])
        except ValueError:
            raise ValueError(f"line {number} has a coordinate that is no number") from None
        if len(words) < 3:
            raise ValueError(f"line {number} has {len(words)} coordinates, expected 3")
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def _checked(points: NDArray[np.generic]) -> Points:
    """Validate a cloud and return its coordinates."""
    if points.ndim != 2 or points.shape[1] < 3 or points.dtype.kind not in "fiu":
        raise ValueError(
            f"must have numbers (points, 3 or more), got {points.dtype} {tuple(points.shape)}"
        )
    if len(points) == 3 and points.shape[1] > 16:
        raise ValueError(f"must have a point per row, got {tuple(points.shape)}; transpose it")
    found = points[:, :3].astype(np.float64)
    if not len(found):
        raise ValueError("has no points")
    if not np.isfinite(found).all() or np.abs(found).max() > _FARTHEST:
        raise ValueError(f"has coordinates that are not finite, or beyond {_FARTHEST:g}")
    return found
