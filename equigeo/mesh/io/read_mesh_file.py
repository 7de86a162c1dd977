"""The reader that fits a file."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.file_mesh import MAX_FILE_BYTES, FileMesh
from equigeo.mesh.io.glb import read_glb, read_gltf
from equigeo.mesh.io.obj import read_obj
from equigeo.mesh.io.off import read_off
from equigeo.mesh.io.ply import read_ply
from equigeo.mesh.io.stl import is_binary_stl, read_stl
from equigeo.mesh.io.vtp import read_vtp

_READERS: dict[str, Callable[[bytes], FileMesh]] = {
    ".obj": read_obj,
    ".off": read_off,
    ".ply": read_ply,
    ".stl": read_stl,
    ".vtp": read_vtp,
}
_SCENES = {".glb": read_glb, ".gltf": read_gltf}  # which also take the folder
_BY_TRIMESH = ".3mf"
_NUMBERS = {"vertex": ("x", "y", "z"), "triangle": ("v1", "v2", "v3")}  # attributes in 3MF
MESH_SUFFIXES = tuple(sorted([*_READERS, *_SCENES, _BY_TRIMESH]))
_STARTS = {  # of the content by format; those of binary STL are arbitrary
    ".3mf": rb"PK\x03\x04",
    ".glb": rb"glTF",
    ".obj": rb"(?:\s*#[^\n]*\n|\s*(?:mtllib|[go])\b[^\n]*\n)*\s*v[ \t]+[-+.\d]",
    ".off": rb"\s*(?:ST)?C?N?4?OFF(?![A-Za-z])",
    ".ply": rb"ply\s",
    ".stl": rb"(?i:\s*solid\b[^\n]*\n\s*facet\b)",
    ".vtp": rb"\s*(?:<\?xml[^>]*>\s*)?<VTKFile\b[^>]*\bPolyData\b",
}
_STEPS = 8  # fewer steps of float32 per edge lose the shape
_SAMPLE = 1000  # edges that are compared with these steps


def read_mesh_file(path: Path) -> FileMesh:
    """Read a mesh file by its extension, without repairs."""
    suffix = path.suffix.lower()
    if suffix not in MESH_SUFFIXES:
        raise MeshError(f"has the extension {path.suffix!r}; expected {', '.join(MESH_SUFFIXES)}")
    try:
        data = _content(path)
        try:
            if suffix == _BY_TRIMESH:
                mesh = _read_3mf(data)
            elif suffix in _SCENES:
                mesh = _SCENES[suffix](data, path.parent)
            else:
                mesh = _READERS[suffix](data)
        except MeshError as error:
            raise _renamed(suffix, data) or error from None
        if not mesh.num_faces and (misnamed := _renamed(suffix, data)):
            raise misnamed
        return replace(mesh, warnings=(*mesh.warnings, *_lost_digits(mesh)))
    except OSError as error:
        raise MeshError(f"cannot be read ({error.strerror}); check the permissions") from error
    except MemoryError:
        raise MeshError("does not fit in memory; split or simplify the mesh") from None


def _read_3mf(data: bytes) -> FileMesh:
    """Read the triangles of a 3MF file by trimesh, each part transformed by the build."""
    if find_spec("lxml") is None or find_spec("networkx") is None:
        raise MeshError("is read by trimesh, which needs: pip install lxml networkx")
    import trimesh  # which loads SciPy
    from lxml.etree import XMLParser, fromstring  # type: ignore[import-untyped]

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(member.file_size for member in archive.infolist())
            if size > MAX_FILE_BYTES:
                raise MeshError(f"unpacks to {size} bytes, more than {MAX_FILE_BYTES}")
            for name in archive.namelist():
                if name.lower().endswith(".model"):
                    parser = XMLParser(target=_Parts(), resolve_entities=False)
                    fromstring(archive.read(name), parser)
        scene = trimesh.load_scene(io.BytesIO(data), file_type="3mf", process=False)
        mesh: Any = scene.to_mesh()
        vertices, faces = np.array(mesh.vertices, np.float64), np.array(mesh.faces, np.int64)
    except (MeshError, MemoryError):
        raise
    except Exception as error:  # of other libraries, about which a user cannot know
        if isinstance(error, OSError) and error.errno:  # bz2 raises others for damaged data
            raise
        raise MeshError("is no 3MF file with triangles: it is damaged") from error
    return FileMesh(vertices.reshape(-1, 3), faces.reshape(-1), np.full(len(faces), 3))


class _Parts:
    """Parser target that raises for wrong numbers, which trimesh joins without validating them."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] | None = None  # of the mesh that is parsed

    def start(self, tag: str, values: Mapping[str, str]) -> None:
        name = tag.rpartition("}")[2]
        if name == "mesh":
            if self.texts is not None:
                raise ValueError("a mesh must contain no other mesh")
            self.texts = {kind: [] for kind in _NUMBERS}
        elif self.texts is not None and name in _NUMBERS:
            a, b, c = _NUMBERS[name]
            self.texts[name] += values[a], values[b], values[c]

    def end(self, tag: str) -> None:
        if self.texts is None or tag.rpartition("}")[2] != "mesh":
            return
        (rows, faces), self.texts = self.texts.values(), None
        for texts in (rows, faces):
            joined = "".join(texts)
            if "_" in joined or not joined.isascii():  # Python reads these, NumPy stops there
                raise ValueError("numbers must have no underscore and no foreign digits")
        number = sum(1 for _ in map(float, rows)) // 3  # float raises for other text
        corners = np.fromiter(map(int, faces), np.int64, len(faces))
        outside = corners[(corners < 0) | (corners >= number)]
        if len(outside):
            raise MeshError(
                f"has a face that refers to vertex {outside[0]} of a part that has {number} "
                "(counted from 0); export the mesh again"
            )

    def close(self) -> None:
        pass


def _content(path: Path) -> bytes:
    if not path.exists():
        raise MeshError("does not exist; check the path")
    if not path.is_file():  # a pipe or a device could block forever
        raise MeshError("is not a regular file; give the path of a mesh file")
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise MeshError(f"has {size} bytes, more than {MAX_FILE_BYTES}; split or simplify the mesh")
    data = path.read_bytes()
    if not data:
        raise MeshError("is empty; export the mesh again")
    return data


def _renamed(suffix: str, data: bytes) -> MeshError | None:
    """Return an error if the content is of another format than the extension."""
    start = data[: 2**16]
    found = [kind for kind, pattern in _STARTS.items() if re.match(pattern, start)]
    if not found and is_binary_stl(data):
        found = [".stl"]
    if not found or suffix in found:
        return None
    return MeshError(f"has the content of a {found[0]} file; rename it from {suffix} to {found[0]}")


def _lost_digits(mesh: FileMesh) -> tuple[str, ...]:
    """Return a warning if edges in float32 are as short as the steps so far from the origin."""
    faces = np.flatnonzero(mesh.sizes > 1)
    faces = faces[np.linspace(0, len(faces) - 1, min(len(faces), _SAMPLE)).astype(np.int64)]
    first = (np.cumsum(mesh.sizes) - mesh.sizes)[faces]
    ends = mesh.vertices[mesh.corners[np.stack([first, first + 1])]]
    ends = ends[:, np.isfinite(ends).all(axis=(0, 2))]
    with np.errstate(all="ignore"):  # vertices may be far beyond float32
        stored = ends.astype(np.float32)
        largest = np.abs(ends).max(initial=0.0)
        step = np.spacing(np.float32(largest))
    if (stored != ends).any() or not np.isfinite(step) or not ends.size:
        return ()
    if np.median(np.abs(ends[1] - ends[0]).max(axis=1)) > _STEPS * step:
        return ()
    return (
        f"coordinates in float32 are multiples of {step:.2g} at {largest:.2g} from the origin, too "
        "coarse for half of the edges; move the mesh to the origin and export it again",
    )
