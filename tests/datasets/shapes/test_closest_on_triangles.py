import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import nnls

from equigeo.datasets.shapes.closest_on_triangles import closest_on_triangles

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
