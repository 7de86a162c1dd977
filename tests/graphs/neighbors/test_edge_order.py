from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equigeo.graphs.neighbors.edge_order import has_duplicates, sort_edges
from equigeo.graphs.neighbors.point_system import Candidates

SMALL = st.integers(-3, 3)
LARGE = st.sampled_from([-(2**31) + 1, -1, 0, 5, 2**31 - 1])


@pytest.mark.parametrize("shifts", [SMALL, LARGE, None])
@given(st.data())
def test_edges_are_sorted_by_target_source_and_shift(shifts, data):
    count = data.draw(st.sampled_from([1, 2, 5, 2**20 + 1]))
    node = st.integers(0, count - 1)
    length = data.draw(st.integers(0, 12))
    pairs = np.array(data.draw(st.lists(st.tuples(node, node), min_size=length, max_size=length)))
    pairs = np.ascontiguousarray(pairs.reshape(-1, 2).T, np.int64)
    shift = None
    if shifts is not None:
        rows = st.tuples(shifts, shifts, shifts)
        shift = np.array(data.draw(st.lists(rows, min_size=length, max_size=length)), np.int32)
        shift = np.ascontiguousarray(shift.reshape(-1, 3).T)
    before = rows_of(Candidates(pairs, shift))
    found = sort_edges(Candidates(pairs, shift), count)
    assert rows_of(found) == sorted(before)
    assert has_duplicates(found) == (len(set(before)) < len(before))
    assert found.shift is None or found.shift.dtype == np.int32


def rows_of(found):
    source, target = found.pairs
    keys = [target, source] if found.shift is None else [target, source, *found.shift]
    return [*zip(*(key.tolist() for key in keys), strict=True)]
