"""Mesh files as they are written: one reader per format, every face and vertex in file order.

A reader takes the bytes of a file and returns a ``FileMesh``: polygons, nothing repaired. What it
cannot read raises ``MeshError`` with the line or face; ``load_mesh`` adds the name of the file.
"""

from equigeo.mesh.files.file_mesh import FileMesh
from equigeo.mesh.files.read_mesh_file import read_mesh_file

__all__ = ["FileMesh", "read_mesh_file"]
