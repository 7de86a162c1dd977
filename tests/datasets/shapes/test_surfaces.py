import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import nnls

from equigeo.datasets.shapes.remeshing import (
    closest_on_triangles,
    marching_tetrahedra,
    simplify_surface,
)
from equigeo.datasets.shapes.surface import surface_defect

_COORDINATES = st.floats(-2, 2, width=32)


def _by_least_squares(point, corners):
    """Barycentric coordinates as a small problem of non-negative least squares."""
    heavy = 1e4  # weight of the condition that they sum to one
    matrix = np.vstack([corners.T, np.full(3, heavy)])
    weights, _ = nnls(matrix, np.append(point, heavy))
    return np.linalg.norm(weights / weights.sum() @ corners - point)


@given(arrays(float, 3, elements=_COORDINATES), arrays(float, (3, 3), elements=_COORDINATES))
def test_distances_are_those_of_constrained_least_squares(point, corners):
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    if np.linalg.norm(normal) < 1e-2:  # so thin that least squares are inaccurate
        return
    weights, distance = closest_on_triangles(point, corners)
    assert (weights >= 0).all()
    near = 1e-12  # epsilon times the squares of edges, up to 48, over the normal
    assert weights.sum() == pytest.approx(1, abs=near)
    assert np.linalg.norm(weights @ corners - point) == pytest.approx(distance, abs=near)
    # the condition holds to about the inverse of its weight, squared
    assert distance == pytest.approx(_by_least_squares(point, corners), abs=1e-5)


def test_many_points_go_with_many_triangles():
    generator = np.random.default_rng(0)
    points, corners = generator.random((7, 1, 3)), generator.random((7, 5, 3, 3))
    weights, distances = closest_on_triangles(points, corners)
    assert (weights.shape, distances.shape) == ((7, 5, 3), (7, 5))
    one = closest_on_triangles(points[2, 0], corners[2, 3])
    assert np.array_equal(one[0], weights[2, 3])
    assert one[1] == distances[2, 3]


def _twins_match(faces, number):
    start, end = faces.reshape(-1), np.roll(faces, -1, axis=1).reshape(-1)
    keys, twins = np.sort(start * number + end), np.sort(end * number + start)
    return len(np.unique(keys)) == len(keys) and np.array_equal(keys, twins)


def _volume(vertices, faces):
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    return np.sum(np.cross(a, b) * c) / 6


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
def test_any_field_gives_a_closed_oriented_surface_around_its_negative_part(seed, share):
    values = np.ones((6, 7, 8))
    random = np.random.default_rng(seed).uniform(size=(4, 5, 6)) - share
    values[1:-1, 1:-1, 1:-1] = random
    values[2, 2, 2] = -1.0
    vertices, faces = marching_tetrahedra(values)
    assert _twins_match(faces, len(vertices))
    assert _volume(vertices, faces) > 0


def test_the_volume_of_a_ball_is_right_and_a_surface_that_is_cut_off_refused():
    x, y, z = np.mgrid[-20:21, -20:21, -20:21]
    vertices, faces = marching_tetrahedra(np.sqrt(x**2 + y**2 + z**2) - 15.3)
    # faces are chords of the sphere: off by (cell / radius)^2 / 4 and the clipped cuts
    assert _volume(vertices - 20, faces) == pytest.approx(4 / 3 * np.pi * 15.3**3, rel=5e-3)
    with pytest.raises(ValueError, match="positive on the boundary"):
        marching_tetrahedra(-np.ones((3, 3, 3)))


def _torus():
    x, y, z = np.mgrid[-14:15, -14:15, -6:7]
    return marching_tetrahedra(np.hypot(np.hypot(x, y) - 9, z) - 3.2)


def _generator(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("count", [2000, 500, 100, 40])
def test_the_count_is_exact_and_the_topology_stays(count):
    vertices, faces = simplify_surface(*_torus(), count, _generator())
    assert len(faces) == count
    assert surface_defect(vertices, faces, genus=1) is None


def test_the_given_arrays_are_left_alone():
    vertices, faces = _torus()
    copies = vertices.copy(), faces.copy()
    simplify_surface(vertices, faces, 300, _generator())
    np.testing.assert_array_equal(vertices, copies[0])
    np.testing.assert_array_equal(faces, copies[1])


@pytest.mark.parametrize(
    ("count", "message"),
    [
        *((count, "count must be even") for count in (101, 2, 1_000_000)),
        (8, "no collapse is left"),  # a torus needs 14 triangles
    ],
)
def test_a_count_that_cannot_be_reached_is_refused(count, message):
    with pytest.raises(ValueError, match=message):
        simplify_surface(*_torus(), count, _generator())


_VERTICES = np.concatenate([np.zeros((1, 3)), np.eye(3)])
_FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


@pytest.mark.parametrize(
    ("vertices", "faces", "genus", "defect"),
    [
        (_VERTICES * np.nan, _FACES, 0, "not finite"),
        (_VERTICES, np.concatenate([_FACES, _FACES]), 0, "two faces on one side"),
        (_VERTICES, np.concatenate([_FACES, [[1, 1, 2]]]), 0, "degenerate"),
        (_VERTICES, _FACES[:3], 0, "one face on each side"),
        (
            np.concatenate([_VERTICES, _VERTICES]),
            np.concatenate([_FACES, _FACES + 4]),
            0,
            "several",
        ),
        (np.concatenate([_VERTICES, _VERTICES[:1]]), _FACES, 0, "unused"),
        (_VERTICES, _FACES, 1, "characteristic is 2, not 0"),
        (_VERTICES * [1, 1, 0], _FACES, 0, "no area"),
        (_VERTICES, _FACES[:, ::-1], 0, "volume"),
    ],
)
def test_every_defect_is_named(vertices, faces, genus, defect):
    assert surface_defect(_VERTICES, _FACES, genus=0) is None
    assert defect in surface_defect(vertices, faces, genus)
