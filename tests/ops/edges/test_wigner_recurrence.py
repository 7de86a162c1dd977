"""Matrices of irreps from a recurrence: oracles 1, 3, 4 and 23 of the specification."""

import math

import pytest
import torch
from torch.testing import assert_close

from equigeo.ops.edges.edge_frames import edge_frames
from equigeo.ops.edges.wigner_recurrence import wigner_matrices
from equigeo.reps.wigner_d import wigner_d
from equigeo.testing import tolerance
from tests.ops.edges.test_edge_frames import directions

pytestmark = pytest.mark.kernels

F64 = torch.float64


@pytest.mark.parametrize("l", range(11))
def test_they_are_those_of_the_representation(l):
    frames = edge_frames(directions())
    want = wigner_d(l, frames)
    assert_close(wigner_matrices(frames, 10)[l], want, **tolerance(F64, 2 * l + 1))


def test_a_roll_turns_each_order_by_itself():
    t = 0.7
    roll = [[math.cos(t), 0, math.sin(t)], [0, 1, 0], [-math.sin(t), 0, math.cos(t)]]
    for l, d in enumerate(wigner_matrices(torch.tensor(roll, dtype=F64), 4)):
        wanted = torch.zeros_like(d)
        for m in range(-l, l + 1):
            wanted[l + m, l + m] = math.cos(m * t)
            wanted[l + m, l - m] -= math.sin(m * t)
        assert_close(d, wanted, **tolerance(F64, 2 * l + 1))


def test_two_rows_of_a_known_frame():
    d = wigner_matrices(edge_frames(torch.tensor([0.36, 0.48, 0.80], dtype=F64)), 2)[2]
    wanted = [
        [0.0486486486, -0.3814054054, -0.6651075101, -0.3675675676, 0.5241081081],
        [0.0671088386, 0.4841513514, 0.4420193661, -0.5241081081, 0.5394658875],
    ]
    # half a unit of the tenth decimal, the last of the specification
    assert_close(d[3:], torch.tensor(wanted, dtype=F64), rtol=0, atol=5.1e-11)


def test_single_precision_is_lost_at_no_direction():
    near = torch.tensor([[1e-4, 1.0, 0.0], [0.0, -1.0, 1e-3], [0.0, 1.0, 0.0]], dtype=F64)
    vectors = torch.cat([directions(), near])
    exact = wigner_matrices(edge_frames(vectors), 10)
    for mine, d in zip(wigner_matrices(edge_frames(vectors.float()), 10), exact, strict=True):
        # The table of the specification has 2e-6 for degree 10, of other directions.
        assert_close(mine.double(), d, rtol=0, atol=3e-6)


def test_fewer_degrees_are_the_first_ones():
    frames = edge_frames(directions())
    assert [d.shape[-1] for d in wigner_matrices(frames, 0)] == [1]
    assert [d.shape[-1] for d in wigner_matrices(frames, 2)] == [1, 3, 5]
