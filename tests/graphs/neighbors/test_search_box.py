from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.graphs.neighbors.lattice import heights
from equigeo.graphs.neighbors.point_system import Candidates, PointSystem
from equigeo.graphs.neighbors.search_box import search_box
from equigeo.testing import tolerance

NUMBERS = st.integers(-8000, 8000).map(lambda n: n / 8)


@settings(deadline=None)
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
