"""Mesh files: one reader per format, chosen by ``read_mesh_file``.

A reader takes the bytes of a file and returns a ``FileMesh``: polygons in file order, nothing
repaired. What it cannot read raises ``MeshError`` with the line or face; ``load_mesh`` adds the
name of the file. Text formats go through ``normalize_text``, ``token_table`` and ``text_numbers``,
binary ones through ``parse_with_trimesh``. ``limits`` says how much is read.
"""
