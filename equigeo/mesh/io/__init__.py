"""Mesh files: one reader per format, from bytes to a ``FileMesh``; see ``read_mesh_file``."""
