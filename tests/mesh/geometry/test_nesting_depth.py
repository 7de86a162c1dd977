"""Depths of balls in balls, and which parts are beside each other."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from trimesh.creation import box, icosphere

from equigeo.mesh.geometry import nesting_depth as module
from equigeo.mesh.geometry.nesting_depth import nesting_depth

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


def test_what_lies_beside_within_the_box_is_not_inside() -> None:
    tetrahedron = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    points = np.concatenate([9.0 * np.eye(4, 3)[[3, 0, 1, 2]], 8.0 + 0.1 * np.eye(4, 3)])
    faces, part = np.concatenate([tetrahedron, tetrahedron + 4]), np.repeat([0, 1], 4)
    assert nesting_depth(points, faces, part, np.array([True, True])).tolist() == [0, 0]


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


def test_open_parts_hold_nothing_and_numbers_of_parts_may_have_gaps() -> None:
    points, faces, part = balls((1.0, 0.0), (0.5, 0.0), (0.25, 0.0))
    depth = nesting_depth(points, faces, 2 * part, np.array([1, 0, 0, 0, 1], bool))
    assert depth.tolist() == [0, 0, 0, 0, 1]


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
