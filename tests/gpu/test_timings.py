from __future__ import annotations

import pytest
import torch

from tests.gpu.timings import PROBLEMS, WARM_UP, agree, in_turn, measure_ops

CPU = torch.device("cpu")


def test_every_problem_is_computed_by_a_peer_and_timed():
    found = measure_ops(CPU, edges=8, rounds=1)
    kinds = 3 * len(PROBLEMS) - 1  # sums over neighbours have no second derivatives
    assert len(found["microseconds"]) == kinds
    assert found["failures"] == []
    for name, times in found["microseconds"].items():
        assert len(times) == 2, name
        assert "ours" in times
        assert all(t > 0 for t in times.values())


def test_what_computes_something_else_is_not_timed():
    one = torch.ones(3)
    agree([one, one + 1e-6])
    with pytest.raises(AssertionError):
        agree([one, one + 1e-2])


def test_the_first_calls_warm_up():
    calls = []
    in_turn({"a": lambda: calls.append(1)}, CPU, rounds=2)
    assert len(calls) == WARM_UP + 2
