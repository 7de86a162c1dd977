"""Who meets whom around an edge of many faces."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from equigeo.mesh.errors import MeshError
from equigeo.mesh.repair.edge_table import EdgeTable
from equigeo.mesh.repair.face_pairs import all_pairs, pair_faces
from tests.mesh.repair.test_triangle_soups import soups


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
@pytest.mark.parametrize("seed", range(4))
def test_neighbours_around_an_edge_meet(name: str, seed: int) -> None:
    degrees, expected = CASES[name]
    points, faces = book(*degrees)
    random = np.random.default_rng(seed)
    order = random.permutation(len(faces))
    moved = Rotation.random(random_state=seed).apply(points) * random.random() + random.random(3)
    found = meeting(moved, faces[order])
    assert {frozenset(int(order[f]) for f in pair) for pair in found} == {
        frozenset(pair) for pair in expected
    }


def test_pairs_of_before_merging_stay_together() -> None:
    points, faces = book(0, 90, 180, 270)
    loose = faces.copy()
    loose[[0, 2], :2] += 10
    assert meeting(points, faces, loose) == {frozenset((0, 2)), frozenset((1, 3))}
    loose[[1, 3], :2] += [[20, 20], [30, 30]]  # these two are neighbours once the others are gone
    assert meeting(points, faces, loose) == {frozenset((0, 2)), frozenset((1, 3))}


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


def test_all_pairs_of_an_edge() -> None:
    faces = book(0, 90, 180, 270)[1]
    found = (all_pairs(EdgeTable.from_faces(faces)) // 3).tolist()
    assert sorted(found) == [list(pair) for pair in combinations(range(4), 2)]
    many = np.stack([np.zeros(300), np.ones(300), np.arange(2, 302)], axis=1).astype(np.int64)
    with pytest.raises(MeshError, match=r'edge of 300 faces, where at most 256.*nonmanifold="cut"'):
        all_pairs(EdgeTable.from_faces(many))
