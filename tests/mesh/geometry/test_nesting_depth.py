import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from torch.utils._python_dispatch import TorchDispatchMode
from trimesh.creation import box, icosphere

from equigeo.mesh.geometry import orient as module
from equigeo.mesh.geometry.connectivity import (
    coincident_points,
    concatenate_ranges,
    connected_components,
)
from equigeo.mesh.geometry.half_edges import pairs_of_faces
from equigeo.mesh.geometry.orient import nesting_depth
from tests.mesh import shapes
from tests.mesh.definitions import components
from tests.tier import tier


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=30), st.integers(0, 2**32 - 1))
def test_points_on_a_lattice_merge_within_the_tolerance_only(
    cells: list[tuple[int, int, int]], seed: int
) -> None:
    cell = np.array(cells, np.float64).reshape(-1, 3)
    noise = np.random.default_rng(seed).uniform(-1e-10, 1e-10, cell.shape)
    expected = [cells.index(place) for place in cells]
    assert coincident_points(cell + noise, 1e-9).tolist() == expected


def test_points_merge_wherever_they_lie_and_nan_is_no_place() -> None:
    # A grid of cells would part some of these pairs, whatever its origin.
    base = np.random.default_rng(0).random((1000, 3))
    merged = coincident_points(np.concatenate([base, base + 0.9e-9]), 1e-9)
    assert merged.tolist() == [*range(1000), *range(1000)]
    apart = coincident_points(np.concatenate([base, base + np.array([1.1e-9, 0, 0])]), 1e-9)
    assert apart.tolist() == list(range(2000))
    nan = float("nan")
    points = np.array([[0.0, 0, 0], [-0.0, 0, -0.0], [nan, 0, 0], [nan, 0, 0]])
    assert coincident_points(points, 0.0).tolist() == [0, 0, 2, 3]
    crowd = np.random.default_rng(0).random((50_000, 3)) * 5e-9
    assert not coincident_points(crowd, 1e-9).any()


@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_points_at_one_place_merge_without_comparing_all_pairs(count: int) -> None:
    assert not coincident_points(np.zeros((count, 3)), 1e-9).any()


def test_a_dense_cloud_merges_only_true_neighbors() -> None:
    # Along every axis the next point is closer than the tolerance, in space none is.
    side = 47
    lattice = np.stack(np.meshgrid(*[np.arange(side)] * 3), axis=-1).reshape(-1, 3) * 2e-9
    tilted = lattice + lattice[:, [1, 2, 0]] * [0.31, 0.17, 0.23]
    for axis in tilted.T:
        # the tolerance that points are merged with below
        assert np.diff(np.sort(axis)).max() < 1e-9
    cloud = np.concatenate([tilted, tilted[::-1] + 1e-12])
    merged = coincident_points(cloud, 1e-9)
    count = len(lattice)
    assert merged.tolist() == [*range(count), *range(count - 1, -1, -1)]


BALL = icosphere(subdivisions=2)


def balls(*places: tuple[float, float]):
    """Balls by radius and position along an axis: points, faces, part."""
    points = [radius * BALL.vertices + [at, 0, 0] for radius, at in places]
    faces = [np.asarray(BALL.faces) + n * len(BALL.vertices) for n in range(len(places))]
    part = np.repeat(np.arange(len(places)), len(BALL.faces))
    return np.concatenate(points), np.concatenate(faces), part


@pytest.mark.parametrize(
    ("places", "depth"),
    [
        ([(1.0, 0.0)], [0]),
        ([(1.0, 0.0), (0.5, 0.0)], [0, 1]),
        ([(0.25, 0.0), (1.0, 0.0), (0.5, 0.0)], [2, 0, 1]),
        ([(1.0, 0.0), (0.2, 0.5), (0.2, -0.5)], [0, 1, 1]),
        ([(1.0, 0.0), (0.5, 2.0)], [0, 0]),
        ([(1.0, 0.0), (1.0, 1.0)], [0, 0]),  # they cross
    ],
)
def test_depth_is_the_number_of_balls_around_a_ball(places, depth) -> None:
    points, faces, part = balls(*places)
    closed = np.ones(len(places), bool)
    assert nesting_depth(points, faces, part, closed).tolist() == depth
    turned = faces.copy()
    turned[part == 0] = turned[part == 0][:, ::-1]  # however a part is wound
    assert nesting_depth(points, turned, part, closed).tolist() == depth


@pytest.mark.parametrize("face", range(0, 12, 2))
def test_parts_that_touch_a_wall_have_one_depth_in_every_pose(face: int) -> None:
    cube = box()
    # The first triangles of the small cube are where it is looked at, one of them on a wall.
    faces = np.concatenate([cube.faces, np.roll(cube.faces, face, axis=0) + 8])
    part, closed = np.repeat([0, 1], 12), np.ones(2, bool)
    for at, places in ((0.35, {0, 1}), (0.65, {0})):  # inside and outside of a wall
        points = np.concatenate([cube.vertices, 0.3 * cube.vertices + [at, 0.01, 0.02]])
        poses = Rotation.random(20, random_state=0)
        depths = [nesting_depth(r.apply(points), faces, part, closed).tolist() for r in poses]
        assert depths[0][1] in places
        assert depths == [[0, depths[0][1]]] * len(poses)


def test_open_parts_and_parts_beside_others_are_not_inside() -> None:
    points, faces, part = balls((1.0, 0.0), (0.5, 0.0), (0.25, 0.0))
    depth = nesting_depth(points, faces, 2 * part, np.array([1, 0, 0, 0, 1], bool))
    assert depth.tolist() == [0, 0, 0, 0, 1]
    tetrahedron = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    points = np.concatenate([9.0 * np.eye(4, 3)[[3, 0, 1, 2]], 8.0 + 0.1 * np.eye(4, 3)])
    faces, part = np.concatenate([tetrahedron, tetrahedron + 4]), np.repeat([0, 1], 4)
    assert nesting_depth(points, faces, part, np.array([True, True])).tolist() == [0, 0]


def test_depths_of_crossing_parts_do_not_depend_on_the_pose() -> None:
    random = np.random.default_rng(0)
    points, faces, part = balls(*((r, 2 * x) for r, x in random.random((8, 2))))
    closed = np.ones(8, bool)
    expected = nesting_depth(points, faces, part, closed)
    assert expected.max() > 0
    for rotation in Rotation.random(10, random_state=0):
        moved = rotation.apply(points) * [1, 1, -1]
        assert (nesting_depth(moved, faces, part, closed) == expected).all()


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    points, faces, part = balls(*((1.0 / (n + 1), 0.0) for n in range(6)))
    monkeypatch.setattr(module, "_MOST_ANGLES", 0)
    monkeypatch.setattr(module, "_ANGLES_PER_FACE", 0)
    assert not nesting_depth(points, faces, part, np.ones(6, bool)).any()


class _Rounds(TorchDispatchMode):
    """Count the passes over the edges: each hooks roots by one scatter."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += "scatter" in str(func)
        return func(*args, **(kwargs or {}))


def _tensor(pairs):
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)


@given(st.data())
def test_connected_components_are_those_of_scipy(data):
    size = data.draw(st.integers(1, 60))
    node = st.integers(0, size - 1)
    pairs = data.draw(st.lists(st.tuples(node, node), max_size=80))
    assert connected_components(_tensor(pairs), size).tolist() == components(pairs, size)


@given(shapes.seeds, st.sampled_from([0.2, 0.5, 1.0, 2.0]))
def test_connected_components_of_large_random_graphs_are_those_of_scipy(seed, density):
    size = 3000
    pairs = np.random.default_rng(seed).integers(size, size=(int(density * size), 2))
    assert connected_components(torch.as_tensor(pairs), size).tolist() == components(pairs, size)


def test_paths_take_at_most_sixteen_rounds_and_no_edges_leave_every_node_alone():
    (size,) = tier([30_000], [100_000])
    place = shapes.permutation(size, 0)
    path = torch.stack((place[:-1], place[1:]), dim=1)
    with _Rounds() as rounds:
        label = connected_components(path, size)
    assert int(label.max()) == 0
    assert 0 < rounds.count <= 16
    assert connected_components(_tensor([]), 3).tolist() == [0, 1, 2]
    assert connected_components(_tensor([]), 0).tolist() == []


@pytest.mark.parametrize("seed", tier(range(1), range(3)))
def test_a_mesh_with_a_fifth_of_its_edges_contracted_takes_at_most_eight_rounds(seed):
    shape = shapes.icosphere(5)
    pairs = pairs_of_faces(shape.faces) // 3
    chosen = pairs[shapes.permutation(len(pairs), seed)[: len(pairs) // 5]]
    with _Rounds() as rounds:
        connected_components(chosen, shape.num_faces)
    assert 0 < rounds.count <= 8


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5)), max_size=20))
def test_ranges_follow_one_another(ranges):
    first, sizes = np.array(ranges, np.int64).reshape(-1, 2).T
    expected = [number for begin, size in ranges for number in range(begin, begin + size)]
    assert concatenate_ranges(first, sizes).tolist() == expected
