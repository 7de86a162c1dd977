"""The topology of known surfaces, and fans against a walk around each vertex."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from equigeo.mesh.repair.mesh_topology import MeshTopology
from tests.mesh.repair.triangle_soups import OCTAHEDRON, soups


@settings(max_examples=200, deadline=None)
@given(soups())
def test_fans_are_those_of_a_walk_around_each_vertex(faces: NDArray[np.int64]) -> None:
    expected = 0
    for vertex in np.unique(faces):
        links = [set(face) - {vertex} for face in faces.tolist() if vertex in face]
        fans = 0
        while links:
            fans += 1
            reached = links.pop()
            while touching := [link for link in links if link & reached]:
                links = [link for link in links if not link & reached]
                reached |= set().union(*touching)
        expected += fans > 1
    assert MeshTopology.from_faces(faces).nonmanifold_vertices == expected


@pytest.mark.parametrize(
    ("faces", "closed", "manifold", "components", "euler"),
    [
        (OCTAHEDRON, True, True, 1, 2),
        (OCTAHEDRON[:-1], False, True, 1, 1),
        (np.concatenate([OCTAHEDRON, OCTAHEDRON + 6]), True, True, 2, 4),
        (np.concatenate([OCTAHEDRON, OCTAHEDRON + 5]), True, False, 1, 3),  # at one vertex
        (np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4]]), False, False, 1, 1),  # at one edge
    ],
)
def test_topology_of_known_surfaces(faces, closed, manifold, components, euler) -> None:
    topology = MeshTopology.from_faces(faces)
    assert topology.closed == closed
    assert topology.manifold == manifold
    assert topology.components == components
    assert topology.euler == euler
