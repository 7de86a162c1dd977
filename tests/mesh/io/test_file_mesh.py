"""Polygons of a file, cut into triangles."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.mesh.io.file_mesh import FileMesh


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 7), max_size=10))
def test_a_polygon_gives_two_triangles_less_than_its_corners(sizes: list[int]) -> None:
    total = sum(sizes)
    file = FileMesh(np.zeros((total, 3)), np.arange(total), np.array(sizes, np.int64))
    triangles, polygon = file.fan_triangles()
    assert file.num_triangles == len(triangles)
    assert np.bincount(polygon, minlength=len(sizes)).tolist() == [max(s - 2, 0) for s in sizes]
    assert (np.diff(polygon) >= 0).all()
    first = np.cumsum(sizes) - sizes if sizes else np.zeros(0)
    assert (triangles[:, 0] == first[polygon]).all()
    assert (triangles[:, 2] == triangles[:, 1] + 1).all()
