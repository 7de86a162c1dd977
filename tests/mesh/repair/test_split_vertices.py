"""Fans of faces and the vertices they get."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from numpy.typing import NDArray

from equigeo.mesh.repair.edge_table import EdgeTable
from equigeo.mesh.repair.split_vertices import split_vertices, vertex_fans
from tests.mesh.repair.triangle_soups import OCTAHEDRON, soups


def test_a_closed_surface_has_one_fan_at_each_vertex_and_is_not_split() -> None:
    pairs = EdgeTable.from_faces(OCTAHEDRON).twins()
    fan = vertex_fans(OCTAHEDRON, pairs)
    assert len(np.unique(fan)) == 6
    faces, source = split_vertices(OCTAHEDRON, pairs, np.ones(6, bool))
    assert (faces == OCTAHEDRON).all()
    assert len(source) == 0


def test_two_surfaces_at_one_vertex_part_there() -> None:
    joined = np.concatenate([OCTAHEDRON, np.where(OCTAHEDRON == 0, 0, OCTAHEDRON + 5)])
    pairs = EdgeTable.from_faces(joined).twins()
    faces, source = split_vertices(joined, pairs, np.arange(11) == 0)
    assert source.tolist() == [0]
    assert (faces[:8] == OCTAHEDRON).all()
    assert set(faces[8:].ravel().tolist()) == {11, *range(6, 11)}
    assert (split_vertices(joined, pairs, np.zeros(11, bool))[0] == joined).all()


@settings(max_examples=100, deadline=None)
@given(soups())
def test_without_pairs_every_face_has_vertices_of_its_own(faces: NDArray[np.int64]) -> None:
    number = int(faces.max(initial=-1)) + 1
    split, source = split_vertices(faces, np.empty((0, 2), np.int64), np.ones(number, bool))
    assert len(np.unique(split)) == split.size
    assert (np.append(np.arange(number), source)[split] == faces).all()
