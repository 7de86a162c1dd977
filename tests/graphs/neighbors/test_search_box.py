"""Reduced lattices, and the box in which a system is searched."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.graphs.neighbors.lattice import complete_cell, heights, reduce_lattice
from equigeo.graphs.neighbors.point_system import Candidates, PointSystem
from equigeo.graphs.neighbors.search_box import search_box
from equigeo.testing import tolerance
from tests.graphs.neighbors.conformance import rotation

ENTRIES = st.integers(-30, 30)


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


NUMBERS = st.integers(-8000, 8000).map(lambda n: n / 8)


@given(st.data())
def test_points_are_inside_of_a_compact_right_handed_cell(data):
    row = st.lists(NUMBERS, min_size=3, max_size=3)
    cell = np.array(data.draw(st.lists(row, min_size=3, max_size=3)))
    positions = np.array(data.draw(st.lists(row, min_size=1, max_size=5)))
    pbc = np.array(data.draw(st.lists(st.booleans(), min_size=3, max_size=3)))
    rows = cell[pbc]
    if len(rows) and np.linalg.svd(rows)[1][-1] <= 1e-3 * np.abs(rows).max():
        return
    box = search_box(PointSystem(positions, cell, pbc, 2.0))
    fractions = box.points @ np.linalg.inv(box.cell)
    assert fractions.min() > -1e-6
    assert fractions.max() < 1 + 1e-6
    assert np.linalg.det(box.cell) > 0
    assert (
        np.linalg.norm(box.cell[pbc] / box.unit, axis=1)
        <= np.linalg.norm(rows, axis=1).max(initial=0) * (1 + 1e-9)
    ).all()
    assert 4.0 <= box.cutoff < 8.0
    assert 2.0 < box.cutoff / box.unit < 2.001
    assert (heights(box.cell)[~pbc] > 3 * 4.0 * 0.99).all()
    # Back in the caller's terms: a pair of the box is the same vector there.
    count = len(positions)
    pairs = np.stack([np.arange(count), np.roll(np.arange(count), 1)])
    zero = np.zeros((3, count), np.int32)
    moved = box.given_terms(Candidates(pairs, zero.copy() if pbc.any() else None))
    shift = zero if moved.shift is None else moved.shift
    assert not shift[~pbc].any()
    inside = (box.points[pairs[1]] - box.points[pairs[0]]) / box.unit
    outside = positions[pairs[1]] - positions[pairs[0]] + shift.T @ np.where(pbc[:, None], cell, 0)
    # Positions of up to 1e3; whole multiples of the caller's vectors, in eighths, are exact.
    near = 1e3 * tolerance(torch.float64, terms=3)["atol"]
    np.testing.assert_allclose(inside, outside, rtol=0, atol=near)


def test_a_simple_system_is_left_alone():
    positions = np.array([[0.5, 0.5, 0.5], [0.25, 0.75, 0]])
    box = search_box(PointSystem(positions, np.eye(3), np.ones(3, bool), 5.0))
    assert box.points is positions
    assert box.unit == 1
    assert np.array_equal(box.cell, np.eye(3))
    assert box.wraps is None
    assert box.basis is None


@pytest.mark.parametrize("far", [1e10, 1e17])
def test_shifts_that_would_overflow_are_refused(far):
    system = PointSystem(np.array([[far, 0, 0]]), np.eye(3), np.ones(3, bool), 1.0)
    with pytest.raises(ValueError, match="positions must lie within 2147483647 cells"):
        search_box(system)
    # A basis in which a shift gets longer.
    cell = np.array([[1, 0, 0], [1e4, 1, 0], [0, 0, 1.0]])
    near = PointSystem(np.array([[0, 1e6, 0], [0, 0, 0]]), cell, np.ones(3, bool), 1.0)
    pair = Candidates(np.array([[0], [1]]), np.zeros((3, 1), np.int32))
    with pytest.raises(ValueError, match="or shifts overflow"):
        search_box(near).given_terms(pair)
