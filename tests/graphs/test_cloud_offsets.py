from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.graphs.cloud_offsets import cloud_offsets

SIZES = st.lists(st.integers(0, 4), max_size=5)


@given(SIZES)
def test_both_ways_of_saying_what_the_clouds_are_agree(sizes):
    while sizes and not sizes[-1]:  # a batch does not know of empty clouds at its end
        sizes.pop()
    want = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    rows, batch = sum(sizes), torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes).long())
    assert cloud_offsets(rows, batch=batch).tolist() == want
    assert cloud_offsets(rows, batch=batch.numpy().astype(np.int32)).tolist() == want
    assert cloud_offsets(rows, ptr=np.array(want)).tolist() == want
    assert cloud_offsets(rows) is None


def test_both_at_once_are_refused():
    with pytest.raises(ValueError, match="say the same"):
        cloud_offsets(1, torch.zeros(1).long(), torch.tensor([0, 1]))
