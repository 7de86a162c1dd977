"""Mesh files: one reader per format, and loading with repair.

A reader takes the bytes of a file and returns a ``FileMesh``: polygons in file order, nothing
repaired. What it cannot read raises ``MeshError`` with the line or face; ``load_mesh`` adds the
name of the file.
"""
