import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.datasets.shapes.marching_tetrahedra import marching_tetrahedra


def _twins_match(faces, number):
    start, end = faces.reshape(-1), np.roll(faces, -1, axis=1).reshape(-1)
    keys, twins = np.sort(start * number + end), np.sort(end * number + start)
    return len(np.unique(keys)) == len(keys) and np.array_equal(keys, twins)


def _volume(vertices, faces):
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    return np.sum(np.cross(a, b) * c) / 6


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
def test_any_field_gives_a_closed_oriented_surface_around_its_negative_part(seed, share):
    values = np.ones((6, 7, 8))
    random = np.random.default_rng(seed).uniform(size=(4, 5, 6)) - share
    values[1:-1, 1:-1, 1:-1] = random
    values[2, 2, 2] = -1.0
    vertices, faces = marching_tetrahedra(values)
    assert _twins_match(faces, len(vertices))
    assert _volume(vertices, faces) > 0


def test_the_volume_of_a_ball_is_right():
    x, y, z = np.mgrid[-20:21, -20:21, -20:21]
    vertices, faces = marching_tetrahedra(np.sqrt(x**2 + y**2 + z**2) - 15.3)
    # faces are chords of the sphere: off by (cell / radius)^2 / 4 and the clipped cuts
    assert _volume(vertices - 20, faces) == pytest.approx(4 / 3 * np.pi * 15.3**3, rel=5e-3)


def test_a_surface_that_the_grid_cuts_off_is_refused():
    with pytest.raises(ValueError, match="positive on the boundary"):
        marching_tetrahedra(-np.ones((3, 3, 3)))
