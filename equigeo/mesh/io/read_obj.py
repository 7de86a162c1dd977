"""Reader for Wavefront OBJ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.geometry.concatenate_ranges import concatenate_ranges
from equigeo.mesh.io.check_counts import check_corners
from equigeo.mesh.io.file_mesh import FileMesh
from equigeo.mesh.io.normalize_text import normalize_text
from equigeo.mesh.io.obj_attributes import ObjLines, read_obj_attributes
from equigeo.mesh.io.text_numbers import read_indices, read_rows, warn_of_nonfinite
from equigeo.mesh.io.token_table import TokenTable


def read_obj(data: bytes) -> FileMesh:
    """Read the ``v``, ``vt``, ``vn`` and ``f`` lines of an OBJ file; other keywords are ignored."""
    # Web archives and editors wrap sound lines in bytes of their own, so binary is no obstacle.
    text = normalize_text(data, binary_is_text=True)
    table = TokenTable(text)
    vertex_rows, face_rows = table.first_words_equal("v"), table.first_words_equal("f")
    vertices, warnings = _vertices(table, vertex_rows)
    first = table.line_ptr[face_rows] + 1
    sizes = table.line_ptr[face_rows + 1] - first
    check_corners(sizes)
    words = concatenate_ranges(first, sizes)
    corners = read_indices(table, words, stop=table.cut_at_slash(words))
    # Negative indices count back from the last vertex above the line of the face.
    read_so_far = np.repeat(np.searchsorted(vertex_rows, face_rows), sizes)
    mesh = FileMesh(
        vertices,
        np.where(corners < 0, corners + read_so_far, corners - 1),
        sizes,
        vertex_lines=table.line_number(table.line_ptr[vertex_rows]),
        face_lines=table.line_number(first - 1),
        first_index=1,
        warnings=warnings,
    )
    # Afterwards: a file that cannot be used is refused before its attributes take time.
    lines = ObjLines(vertex_rows, face_rows, words, sizes)
    return replace(mesh, attributes=read_obj_attributes(table, text, lines))


def _vertices(
    table: TokenTable, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    first = table.line_ptr[rows] + 1
    counts = np.minimum(table.line_ptr[rows + 1] - first, 3)
    vertices = read_rows(table, first, counts, width=3)
    return vertices, warn_of_nonfinite(table, vertices, first - 1)
