from itertools import product

import numpy as np
import pytest

from equigeo.datasets.engraved.engrave_cube import engrave_cube
from equigeo.datasets.shapes.surface_defect import surface_defect

_SQUARE = np.ones((20, 20), bool)


def _cubes(icon, number, faces=500):
    return [engrave_cube(icon, faces, np.random.default_rng(k)) for k in range(number)]


def _volume(vertices, faces):
    a, b, c = vertices[faces].transpose(1, 0, 2)
    return np.sum(np.cross(a, b) * c) / 6


def _engraved_sides(vertices):
    """Sides, as (axis, sign), that are cut below their middle."""
    sides = []
    for axis, sign in product(range(3), (1, -1)):
        others = np.abs(np.delete(vertices, axis, axis=1)).max(axis=1)
        height = sign * vertices[:, axis]
        if ((height > 0.4) & (height < 0.48) & (others < 0.3)).any():
            sides.append((axis, sign))
    return sides


@pytest.fixture(scope="module")
def squares():
    return _cubes(_SQUARE, 40)


@pytest.mark.parametrize("faces", [200, 500, 2000])
def test_cubes_are_sound_and_have_exactly_their_number_of_faces(faces):
    for vertices, triangles in _cubes(_SQUARE, 3, faces):
        assert triangles.shape == (faces, 3)
        assert vertices.shape == (faces // 2 + 2, 3)
        assert surface_defect(vertices, triangles, genus=0) is None


def test_every_side_is_engraved_now_and_then_and_one_at_a_time(squares):
    sides = [_engraved_sides(vertices) for vertices, _ in squares]
    assert all(len(found) == 1 for found in sides)
    assert len({found[0] for found in sides}) == 6


def test_a_square_takes_away_its_area_times_the_depth(squares):
    for vertices, faces in squares:
        # a turned square's bounding box is at most sqrt(2) times as long as its own side
        lost = 1.0 - _volume(vertices, faces)
        assert 0.04 * 0.5**2 / 2 * 0.8 < lost < 0.08 * 0.85**2 * 1.1


def test_the_edges_of_the_cube_stay_and_engravings_keep_their_margin(squares):
    for vertices, _ in squares:
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        # Simplification moves edges by less than a quarter of one of 32 cells.
        np.testing.assert_allclose([low, high], [[-0.5] * 3, [0.5] * 3], atol=0.25 / 32)
        ((axis, sign),) = _engraved_sides(vertices)
        height = sign * vertices[:, axis]
        others = np.abs(np.delete(vertices, axis, axis=1)).max(axis=1)
        deep = (height > 0.4) & (height < 0.47) & (others < 0.48)
        assert others[deep].max() < 0.45 + 0.02  # walls slope


def test_generators_decide_and_repeat():
    (first, again), other = _cubes(_SQUARE, 1) + _cubes(_SQUARE, 1), _cubes(_SQUARE, 2)[1]
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])


def test_an_empty_picture_is_refused():
    with pytest.raises(ValueError, match="needs a pixel inside"):
        engrave_cube(np.zeros((4, 4), bool), 500, np.random.default_rng(0))
