from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from equigeo.mesh.errors import MeshError
from equigeo.mesh.repair.non_manifold import nonmanifold_faces, wrongly_wound_faces
from equigeo.mesh.repair.topology import (
    EdgeTable,
    MeshTopology,
    all_pairs,
    pair_faces,
    split_vertices,
    vertex_fans,
)
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


def test_topology_and_fans_of_known_surfaces() -> None:
    for faces, closed, manifold, components, euler in (
        (OCTAHEDRON, True, True, 1, 2),
        (OCTAHEDRON[:-1], False, True, 1, 1),
        (np.concatenate([OCTAHEDRON, OCTAHEDRON + 6]), True, True, 2, 4),
        (np.concatenate([OCTAHEDRON, OCTAHEDRON + 5]), True, False, 1, 3),  # at one vertex
        (np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4]]), False, False, 1, 1),  # at one edge
    ):
        topology = MeshTopology.from_faces(faces)
        assert (topology.closed, topology.manifold) == (closed, manifold)
        assert (topology.components, topology.euler) == (components, euler)
    pairs = EdgeTable.from_faces(OCTAHEDRON).twins()
    fan = vertex_fans(OCTAHEDRON, pairs)
    assert len(np.unique(fan)) == 6
    faces, source = split_vertices(OCTAHEDRON, pairs, np.ones(6, bool))
    assert (faces == OCTAHEDRON).all()
    assert len(source) == 0
    joined = np.concatenate([OCTAHEDRON, np.where(OCTAHEDRON == 0, 0, OCTAHEDRON + 5)])
    pairs = EdgeTable.from_faces(joined).twins()
    faces, source = split_vertices(joined, pairs, np.arange(11) == 0)
    assert source.tolist() == [0]
    assert (faces[:8] == OCTAHEDRON).all()
    assert set(faces[8:].ravel().tolist()) == {11, *range(6, 11)}
    assert (split_vertices(joined, pairs, np.zeros(11, bool))[0] == joined).all()


@given(soups())
def test_nonmanifold_faces_are_those_of_a_scan_in_file_order(faces: NDArray[np.int64]) -> None:
    taken: set[tuple[int, int]] = set()
    dropped = []
    for a, b, c in faces.tolist():
        dropped.append(bool(taken & {(a, b), (b, c), (c, a)}))
        if not dropped[-1]:
            taken |= {(a, b), (b, c), (c, a)}
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


@given(soups())
def test_without_pairs_every_face_has_vertices_of_its_own(faces: NDArray[np.int64]) -> None:
    number = int(faces.max(initial=-1)) + 1
    split, source = split_vertices(faces, np.empty((0, 2), np.int64), np.ones(number, bool))
    assert len(np.unique(split)) == split.size
    assert (np.append(np.arange(number), source)[split] == faces).all()


@given(st.lists(st.booleans(), min_size=8, max_size=8), st.permutations(range(8)))
def test_any_winding_of_a_closed_surface_becomes_outward(flips, order) -> None:
    flipped = np.where(np.array(flips)[:, None], OCTAHEDRON[:, ::-1], OCTAHEDRON)
    faces = flipped[order]
    turn, nonorientable, _ = wrongly_wound_faces(
        OCTAHEDRON_POINTS, faces, EdgeTable.from_faces(faces)
    )
    assert turn.tolist() == np.array(flips)[order].tolist()
    assert nonorientable == 0


def test_parts_are_wound_each_for_itself_and_open_ones_turn_their_minority() -> None:
    faces = np.concatenate([OCTAHEDRON, OCTAHEDRON[:, ::-1] + 6])
    points = np.concatenate([OCTAHEDRON_POINTS, OCTAHEDRON_POINTS + 5])
    turn, *_ = wrongly_wound_faces(points, faces, EdgeTable.from_faces(faces))
    assert turn.tolist() == [False] * 8 + [True] * 8
    faces = OCTAHEDRON[:5].copy()
    faces[[1, 3]] = faces[[1, 3], ::-1]
    turn, *_ = wrongly_wound_faces(OCTAHEDRON_POINTS, faces, EdgeTable.from_faces(faces))
    assert turn.tolist() == [False, True, False, True, False]
    faces = np.concatenate([OCTAHEDRON, moebius_strip(21) + 6])
    points = np.concatenate([OCTAHEDRON_POINTS, np.random.default_rng(0).random((21, 3))])
    turn, nonorientable, _ = wrongly_wound_faces(points, faces, EdgeTable.from_faces(faces))
    assert nonorientable == 1
    assert not turn[:8].any()


@pytest.mark.parametrize("seed", range(5))
def test_a_moebius_strip_is_cut_at_one_seam_however_it_is_wound(seed: int) -> None:
    random = np.random.default_rng(seed)
    faces = moebius_strip(41)
    flips = random.random(len(faces)) < 0.5
    faces = np.where(flips[:, None], faces[:, ::-1], faces)[random.permutation(len(faces))]
    edges = EdgeTable.from_faces(faces)
    turn, nonorientable, _ = wrongly_wound_faces(random.random((41, 3)), faces, edges)
    assert nonorientable == 1
    wound = np.where(turn[:, None], faces[:, ::-1], faces)
    edges = EdgeTable.from_faces(wound)
    assert nonmanifold_faces(edges, edges.forward).sum() == 1


def book(*degrees: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Pages at an edge, by angle; a negative one is wound the other way."""
    angle = np.deg2rad(np.abs(degrees))
    across = np.stack([0 * angle + 0.5, np.cos(angle), np.sin(angle)], axis=1)
    points = np.concatenate([[[0.0, 0, 0], [1, 0, 0]], across])
    pages = [[0, 1, n + 2] if d >= 0 else [1, 0, n + 2] for n, d in enumerate(degrees)]
    return points, np.array(pages)


def meeting(points, faces, loose=None) -> set[frozenset[int]]:
    """Pairs of faces that meet at the edge of vertices 0 and 1."""
    loose = faces if loose is None else loose
    pairs = pair_faces(points, faces, loose, EdgeTable.from_faces(faces))
    return {frozenset(pair) for pair in (pairs // 3).tolist()}


# Angles, and who continues whom. A page that is wound forward has its normal towards larger angles.
CASES = {
    "floor, floor, wall": ((0, -180, 90), [{0, 1}]),
    "the wall is in the middle of the file": ((1, 90, -181), [{0, 2}]),
    "winding does not count where one is left over": ((0, 180, 90), [{0, 1}]),
    "two boxes touch": ((-1, 91, -181, 271), [{0, 1}, {2, 3}]),
    "the space between two boxes": ((1, -91, 181, -271), [{1, 2}, {3, 0}]),
    "thin wedges are solid too": ((-1, 20, -181, 200), [{0, 1}, {2, 3}]),
    "no winding is solid: the flattest": ((0, 175, 185, 350), [{0, 1}, {2, 3}]),
    "five": ((0, 170, 180, 190, 30), [{0, 3}, {1, 4}]),
}


@pytest.mark.parametrize("name", CASES)
def test_neighbours_around_an_edge_meet(name: str) -> None:
    degrees, expected = CASES[name]
    points, faces = book(*degrees)
    for seed in range(4):
        random = np.random.default_rng(seed)
        order = random.permutation(len(faces))
        moved = Rotation.random(random_state=seed).apply(points) * random.random()
        found = meeting(moved + random.random(3), faces[order])
        found = {frozenset(int(order[f]) for f in pair) for pair in found}
        assert found == {frozenset(pair) for pair in expected}


def test_pairs_of_before_merging_stay_together_and_all_are_found() -> None:
    points, faces = book(0, 90, 180, 270)
    loose = faces.copy()
    loose[[0, 2], :2] += 10
    assert meeting(points, faces, loose) == {frozenset((0, 2)), frozenset((1, 3))}
    loose[[1, 3], :2] += [[20, 20], [30, 30]]  # these two are neighbors once the others are gone
    assert meeting(points, faces, loose) == {frozenset((0, 2)), frozenset((1, 3))}
    faces = book(0, 90, 180, 270)[1]
    found = (all_pairs(EdgeTable.from_faces(faces)) // 3).tolist()
    assert sorted(found) == [list(pair) for pair in combinations(range(4), 2)]
    many = np.stack([np.zeros(300), np.ones(300), np.arange(2, 302)], axis=1).astype(np.int64)
    with pytest.raises(MeshError, match=r'edge of 300 faces, where at most 256.*nonmanifold="cut"'):
        all_pairs(EdgeTable.from_faces(many))


@given(soups(), st.integers(0, 2**31))
def test_of_any_faces_at_most_two_meet_and_at_most_one_is_alone(faces, seed) -> None:
    points = np.random.default_rng(seed).random((int(faces.max(initial=0)) + 1, 3))
    edges = EdgeTable.from_faces(faces)
    pairs = pair_faces(points, faces, faces, edges)
    assert len(np.unique(pairs)) == pairs.size
    assert (edges.edge[pairs[:, 0]] == edges.edge[pairs[:, 1]]).all()
    met = np.bincount(edges.edge[pairs[:, 0]], minlength=len(edges.num_faces_at_edge))
    assert (met == edges.num_faces_at_edge // 2).all()


@given(st.lists(st.floats(1, 359), min_size=3, max_size=7, unique=True), st.data())
def test_the_flattest_pairing_is_found_among_all(angles, data) -> None:
    signs = data.draw(
        st.lists(st.sampled_from([1, -1]), min_size=len(angles), max_size=len(angles))
    )
    points, faces = book(*(a * s for a, s in zip(angles, signs, strict=True)))
    found = meeting(points, faces)

    # The circle in order; without one face where their number is odd, whose wedges are not used.
    ring = sorted(range(len(angles)), key=lambda n: angles[n])
    size = len(ring) // 2
    ways = []
    for start in range(len(ring) if len(ring) % 2 else 2):
        walk = [ring[(start + k) % len(ring)] for k in range(2 * size)]
        ways.append([(walk[2 * k], walk[2 * k + 1]) for k in range(size)])

    def span(pair) -> float:
        return (angles[pair[1]] - angles[pair[0]]) % 360

    best = min(sum(abs(span(pair) - 180) for pair in way) for way in ways)
    chosen = next(way for way in ways if {frozenset(pair) for pair in way} == found)
    solid = len(ring) % 2 == 0 and all(
        signs[first] < 0 and signs[second] > 0 for first, second in chosen
    )
    assert solid or sum(abs(span(pair) - 180) for pair in chosen) <= best + 1e-3
