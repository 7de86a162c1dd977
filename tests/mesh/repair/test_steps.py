"""Each step of the repair against a plain loop or a known surface."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from equigeo.mesh.geometry.merge_points import merge_points
from equigeo.mesh.repair.duplicate_faces import duplicate_faces
from equigeo.mesh.repair.edge_table import EdgeTable
from equigeo.mesh.repair.fan_triangles import fan_triangles
from equigeo.mesh.repair.mesh_topology import MeshTopology
from equigeo.mesh.repair.nonmanifold_faces import nonmanifold_faces
from equigeo.mesh.repair.unit_points import unit_points
from equigeo.mesh.repair.wrongly_wound_faces import wrongly_wound_faces

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


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=200, deadline=None)
@given(soups())
def test_duplicates_are_all_but_the_first_of_a_vertex_set(faces: NDArray[np.int64]) -> None:
    seen: set[frozenset[int]] = set()
    expected = []
    for face in faces.tolist():
        expected.append(frozenset(face) in seen)
        seen.add(frozenset(face))
    assert duplicate_faces(faces).tolist() == expected


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


@settings(max_examples=100, deadline=None)
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


def moebius_strip(length: int) -> NDArray[np.int64]:
    strip = np.arange(length)
    faces = np.stack([strip, strip + 1, strip + 2], axis=1) % length
    faces[1::2] = faces[1::2, ::-1]
    return faces


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


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=30),
    st.integers(0, 2**32 - 1),
)
def test_points_on_a_lattice_merge_within_the_tolerance_only(
    cells: list[tuple[int, int, int]], seed: int
) -> None:
    cell = np.array(cells, np.float64).reshape(-1, 3)
    noise = np.random.default_rng(seed).uniform(-1e-10, 1e-10, cell.shape)
    expected = [cells.index(place) for place in cells]
    assert merge_points(cell + noise, 1e-9).tolist() == expected


def test_close_points_merge_wherever_they_lie() -> None:
    # A grid of cells would part some of these pairs, whatever its origin.
    base = np.random.default_rng(0).random((1000, 3))
    merged = merge_points(np.concatenate([base, base + 0.9e-9]), 1e-9)
    assert merged.tolist() == [*range(1000), *range(1000)]
    apart = merge_points(np.concatenate([base, base + np.array([1.1e-9, 0, 0])]), 1e-9)
    assert apart.tolist() == list(range(2000))


def test_signed_zeros_are_one_place_and_nan_is_none() -> None:
    nan = float("nan")
    points = np.array([[0.0, 0, 0], [-0.0, 0, -0.0], [nan, 0, 0], [nan, 0, 0]])
    assert merge_points(points, 0.0).tolist() == [0, 0, 2, 3]


@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_points_at_one_place_merge_without_comparing_all_pairs(count: int) -> None:
    assert not merge_points(np.zeros((count, 3)), 1e-9).any()


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e300])
def test_unit_points_do_not_depend_on_the_unit(scale: float) -> None:
    points = np.random.default_rng(0).random((20, 3))
    moved = unit_points(points * scale, np.arange(20))
    np.testing.assert_allclose(moved, unit_points(points, np.arange(20)), rtol=0, atol=1e-14)


def test_unit_points_ignore_vertices_out_of_use() -> None:
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [np.nan, 1e308, np.inf]])
    moved = unit_points(points, np.array([[0, 1, 2]]))
    assert np.linalg.norm(np.ptp(moved[:3], axis=0)) == pytest.approx(1)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 7), max_size=10))
def test_a_polygon_gives_two_triangles_less_than_its_corners(sizes: list[int]) -> None:
    total = sum(sizes)
    triangles, polygon = fan_triangles(np.arange(total), np.array(sizes, np.int64))
    assert np.bincount(polygon, minlength=len(sizes)).tolist() == [max(s - 2, 0) for s in sizes]
    assert (np.diff(polygon) >= 0).all()
    first = np.cumsum(sizes) - sizes if sizes else np.zeros(0)
    assert (triangles[:, 0] == first[polygon]).all()
    assert (triangles[:, 2] == triangles[:, 1] + 1).all()


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


def test_a_dense_cloud_merges_only_true_neighbors() -> None:
    # Along every axis the next point is closer than the tolerance, in space none is.
    side = 47
    lattice = np.stack(np.meshgrid(*[np.arange(side)] * 3), axis=-1).reshape(-1, 3) * 2e-9
    tilted = lattice + lattice[:, [1, 2, 0]] * [0.31, 0.17, 0.23]
    for axis in tilted.T:
        assert np.diff(np.sort(axis)).max() < 1e-9
    cloud = np.concatenate([tilted, tilted[::-1] + 1e-12])
    merged = merge_points(cloud, 1e-9)
    count = len(lattice)
    assert merged.tolist() == [*range(count), *range(count - 1, -1, -1)]


def test_a_crowd_within_the_tolerance_is_one_point() -> None:
    crowd = np.random.default_rng(0).random((50_000, 3)) * 5e-9
    assert not merge_points(crowd, 1e-9).any()


def test_a_long_chain_of_conflicts_takes_linear_time() -> None:
    # Each face conflicts with the next one only; the third face at each edge keeps the winding.
    step = np.arange(20_000)
    strip = np.stack([step, step + 1, step + 2], axis=1)
    flaps = np.stack([step + 1, step, step + 30_000], axis=1)
    edges = EdgeTable.from_faces(np.concatenate([strip, flaps]))
    begin = time.perf_counter()
    dropped = nonmanifold_faces(edges, edges.forward)
    assert time.perf_counter() - begin < 5.0
    assert dropped.tolist() == [False, True] * 10_000 + [False] * 20_000
