import numpy as np
import pytest

from equigeo.datasets.shapes.marching_tetrahedra import marching_tetrahedra
from equigeo.datasets.shapes.simplify_surface import simplify_surface
from equigeo.datasets.shapes.surface_defect import surface_defect


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


def test_the_shape_stays():
    vertices, _ = simplify_surface(*_torus(), 500, _generator())
    center = np.array([14, 14, 6])
    x, y, z = (vertices - center).T
    distance = np.hypot(np.hypot(x, y) - 9, z)
    assert np.abs(distance - 3.2).max() < 0.35


def test_a_seed_repeats_and_another_one_connects_otherwise():
    first, again, other = (simplify_surface(*_torus(), 300, _generator(k)) for k in (1, 1, 2))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])


def test_the_given_arrays_are_left_alone():
    vertices, faces = _torus()
    copies = vertices.copy(), faces.copy()
    simplify_surface(vertices, faces, 300, _generator())
    np.testing.assert_array_equal(vertices, copies[0])
    np.testing.assert_array_equal(faces, copies[1])


@pytest.mark.parametrize("count", [101, 2, 1_000_000])
def test_a_count_out_of_range_is_refused(count):
    with pytest.raises(ValueError, match="count must be even"):
        simplify_surface(*_torus(), count, _generator())


def test_a_count_below_what_the_topology_allows_is_refused():
    # a torus needs 14 triangles
    with pytest.raises(ValueError, match="no collapse is left"):
        simplify_surface(*_torus(), 8, _generator())
