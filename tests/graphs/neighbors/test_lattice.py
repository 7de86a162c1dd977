from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.graphs.neighbors.lattice import complete_cell, heights, reduce_lattice
from tests.graphs.neighbors.conformance import rotation

ENTRIES = st.integers(-30, 30)


@settings(deadline=None)
@given(st.integers(1, 3), st.data())
def test_reduced_vectors_span_the_same_lattice_and_are_short(k, data):
    row = st.lists(ENTRIES, min_size=3, max_size=3)
    rows = np.array(data.draw(st.lists(row, min_size=k, max_size=k)), float)
    if np.linalg.matrix_rank(rows) < k:
        return
    basis = reduce_lattice(rows)
    assert basis.dtype == np.int64
    assert round(abs(np.linalg.det(basis))) == 1
    reduced = basis @ rows
    gram = reduced @ reduced.T
    # Of two of a reduced basis neither sum nor difference is shorter than the longer one.
    for i in range(k):
        for j in range(i):
            assert 2 * abs(gram[i, j]) <= min(gram[i, i], gram[j, j]) * (1 + 1e-6)
    assert np.linalg.norm(reduced, axis=1).max() <= np.linalg.norm(rows, axis=1).max() * (1 + 1e-9)


@pytest.mark.parametrize("shear", [20, 200, 2e4])
def test_cells_that_are_sheared_far_become_cubes(shear):
    cell = np.array([[1, 0, 0], [shear, 1, 0], [-shear / 2, shear / 4, 1]]) @ rotation()
    reduced = reduce_lattice(cell) @ cell
    np.testing.assert_allclose(reduced @ reduced.T, np.eye(3), atol=1e-9 * shear)


def test_short_vectors_stay_as_they_are_in_any_order():
    for rows in (np.diag([3.0, 1, 2]), np.array([[0, 0, 5.0], [4, 0, 0]]), np.ones((1, 3))):
        assert np.array_equal(reduce_lattice(rows), np.eye(len(rows)))


@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1.0, 1e100])
def test_scales_do_not_matter(scale):
    cell = np.array([[1, 0, 0], [0.3, 1, 0], [0, 0.2, 1]]) * scale
    complete = complete_cell(cell, np.array([True, False, True]))
    assert np.isfinite(complete).all()
    assert abs(complete[1] @ cell[0]) <= 1e-12 * scale
    assert np.linalg.norm(complete[1]) == pytest.approx(1)
    assert heights(cell) == pytest.approx(heights(cell / scale) * scale)
    assert np.array_equal(reduce_lattice(cell), np.eye(3))


def test_nothing_periodic_is_completed_by_the_axes():
    cell = np.full((3, 3), 7.0)
    assert np.array_equal(complete_cell(cell, np.zeros(3, bool)), np.eye(3))


def test_heights_are_volume_over_area():
    cell = np.array([[10, 0, 0], [9.6, 1.2, 0], [1, 2, 3.0]])
    volume = abs(np.linalg.det(cell))
    areas = [np.linalg.norm(np.cross(cell[a - 2], cell[a - 1])) for a in range(3)]
    assert heights(cell) == pytest.approx([volume / area for area in areas])
