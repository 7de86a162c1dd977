"""Steps of the repair on random triangles, against loops over faces and vertices."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from equigeo.mesh.repair.edge_table import EdgeTable
from equigeo.mesh.repair.mesh_topology import MeshTopology
from equigeo.mesh.repair.nonmanifold_faces import nonmanifold_faces
from equigeo.mesh.repair.split_vertices import split_vertices, vertex_fans
from equigeo.mesh.repair.wrongly_wound_faces import wrongly_wound_faces
from tests.mesh.definitions import count_calls

OCTAHEDRON_POINTS = np.concatenate([np.eye(3), -np.eye(3)])
OCTAHEDRON = np.array(
    [[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]]
)


@st.composite
def soups(draw: st.DrawFn) -> NDArray[np.int64]:
    """Random triangles on few vertices: mostly non-manifold, three different corners each."""
    num_vertices = draw(st.integers(3, 9))
    corners = st.permutations(range(num_vertices)).map(lambda order: order[:3])
    return np.array(draw(st.lists(corners, min_size=1, max_size=30)), np.int64)


def halfedges(face: NDArray[np.int64]) -> list[tuple[int, int]]:
    a, b, c = (int(index) for index in face)
    return [(a, b), (b, c), (c, a)]


def moebius_strip(length: int) -> NDArray[np.int64]:
    strip = np.arange(length)
    faces = np.stack([strip, strip + 1, strip + 2], axis=1) % length
    faces[1::2] = faces[1::2, ::-1]
    return faces


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


@given(soups())
def test_nonmanifold_faces_are_those_of_a_scan_in_file_order(faces: NDArray[np.int64]) -> None:
    taken: set[tuple[int, int]] = set()
    dropped = []
    for face in faces:
        dropped.append(any(halfedge in taken for halfedge in halfedges(face)))
        if not dropped[-1]:
            taken.update(halfedges(face))
    edges = EdgeTable.from_faces(faces)
    assert nonmanifold_faces(edges, edges.forward).tolist() == dropped


def test_a_long_chain_of_conflicts_takes_linear_time():
    # Each face conflicts with the next one only; the third face at each edge keeps the winding.
    calls = []
    for half in (300, 3_000):
        step = np.arange(2 * half)
        strip = np.stack([step, step + 1, step + 2], axis=1)
        flaps = np.stack([step + 1, step, step + 3 * half], axis=1)
        edges = EdgeTable.from_faces(np.concatenate([strip, flaps]))
        dropped = nonmanifold_faces(edges, edges.forward)
        assert dropped.tolist() == [False, True] * half + [False] * 2 * half
        calls.append(count_calls(partial(nonmanifold_faces, edges, edges.forward)))
    assert calls[1] < 11 * calls[0]


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


@given(soups())
def test_without_pairs_every_face_has_vertices_of_its_own(faces: NDArray[np.int64]) -> None:
    number = int(faces.max(initial=-1)) + 1
    split, source = split_vertices(faces, np.empty((0, 2), np.int64), np.ones(number, bool))
    assert len(np.unique(split)) == split.size
    assert (np.append(np.arange(number), source)[split] == faces).all()


@given(st.lists(st.booleans(), min_size=8, max_size=8), st.permutations(range(8)))
def test_any_winding_of_a_closed_surface_becomes_outward(
    flips: list[bool], order: list[int]
) -> None:
    flipped = np.where(np.array(flips)[:, None], OCTAHEDRON[:, ::-1], OCTAHEDRON)
    faces = flipped[order]
    turn, nonorientable = wrongly_wound_faces(OCTAHEDRON_POINTS, faces, EdgeTable.from_faces(faces))
    assert turn.tolist() == np.array(flips)[order].tolist()
    assert nonorientable == 0


def test_an_open_surface_turns_its_minority() -> None:
    faces = OCTAHEDRON[:5].copy()
    faces[[1, 3]] = faces[[1, 3], ::-1]
    turn, _ = wrongly_wound_faces(OCTAHEDRON_POINTS, faces, EdgeTable.from_faces(faces))
    assert turn.tolist() == [False, True, False, True, False]


def test_parts_are_wound_each_for_itself() -> None:
    faces = np.concatenate([OCTAHEDRON, OCTAHEDRON[:, ::-1] + 6])
    points = np.concatenate([OCTAHEDRON_POINTS, OCTAHEDRON_POINTS + 5])
    turn, _ = wrongly_wound_faces(points, faces, EdgeTable.from_faces(faces))
    assert turn.tolist() == [False] * 8 + [True] * 8


@pytest.mark.parametrize("seed", range(5))
def test_a_moebius_strip_is_cut_at_one_seam_however_it_is_wound(seed: int) -> None:
    random = np.random.default_rng(seed)
    faces = moebius_strip(41)
    flips = random.random(len(faces)) < 0.5
    faces = np.where(flips[:, None], faces[:, ::-1], faces)[random.permutation(len(faces))]
    edges = EdgeTable.from_faces(faces)
    turn, nonorientable = wrongly_wound_faces(random.random((41, 3)), faces, edges)
    assert nonorientable == 1
    wound = np.where(turn[:, None], faces[:, ::-1], faces)
    edges = EdgeTable.from_faces(wound)
    assert nonmanifold_faces(edges, edges.forward).sum() == 1


def test_a_twisted_part_beside_a_sound_one_leaves_it_alone() -> None:
    faces = np.concatenate([OCTAHEDRON, moebius_strip(21) + 6])
    points = np.concatenate([OCTAHEDRON_POINTS, np.random.default_rng(0).random((21, 3))])
    turn, nonorientable = wrongly_wound_faces(points, faces, EdgeTable.from_faces(faces))
    assert nonorientable == 1
    assert not turn[:8].any()
