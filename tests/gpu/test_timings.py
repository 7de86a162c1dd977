import pytest
import torch

from tests.gpu.timings import PROBLEMS, agree, measure_ops

pytestmark = pytest.mark.full


def test_every_problem_is_computed_by_a_peer_and_timed():
    found = measure_ops(torch.device("cpu"), edges=8, rounds=1)
    kinds = 3 * len(PROBLEMS) - 1  # sums over neighbours have no second derivatives
    assert len(found["microseconds"]) == kinds
    assert found["failures"] == []
    for name, times in found["microseconds"].items():
        assert len(times) == 2, name
        assert "ours" in times
        assert all(t > 0 for t in times.values())


def test_different_results_are_not_timed():
    one = torch.ones(3)
    agree([one, one + 1e-6])
    with pytest.raises(AssertionError):
        agree([one, one + 1e-2])
