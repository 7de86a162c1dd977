"""The reader that fits a file."""

from __future__ import annotations

from pathlib import Path

from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.file_mesh import MAX_FILE_BYTES, FileMesh
from equigeo.mesh.io.glb import read_glb
from equigeo.mesh.io.obj import read_obj
from equigeo.mesh.io.off import read_off
from equigeo.mesh.io.ply import read_ply
from equigeo.mesh.io.stl import read_stl

_READERS = {
    ".glb": read_glb,
    ".obj": read_obj,
    ".off": read_off,
    ".ply": read_ply,
    ".stl": read_stl,
}


def read_mesh_file(path: Path) -> FileMesh:
    """Read an OBJ, OFF, PLY, STL or GLB file by its extension, without repairs."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise MeshError(
            f"has the extension {path.suffix!r}; expected {', '.join(sorted(_READERS))}"
        )
    try:
        if not path.exists():
            raise MeshError("does not exist; check the path")
        if not path.is_file():  # a pipe or a device could block forever
            raise MeshError("is not a regular file; give the path of a mesh file")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise MeshError(
                f"has {size} bytes, more than {MAX_FILE_BYTES}; split or simplify the mesh"
            )
        data = path.read_bytes()
        if not data:
            raise MeshError("is empty; export the mesh again")
        return reader(data)
    except OSError as error:
        raise MeshError(f"cannot be read ({error.strerror}); check the permissions") from error
    except MemoryError:
        raise MeshError("does not fit in memory; split or simplify the mesh") from None
