"""Concatenated ranges against a loop."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh.geometry.concatenate_ranges import concatenate_ranges


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5)), max_size=20))
def test_ranges_follow_one_another(ranges):
    first, sizes = np.array(ranges, np.int64).reshape(-1, 2).T
    expected = [number for begin, size in ranges for number in range(begin, begin + size)]
    assert concatenate_ranges(first, sizes).tolist() == expected
