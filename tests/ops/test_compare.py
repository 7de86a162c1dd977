import math

import pytest
import torch
from torch import Tensor

from equigeo.ops import self_test as compare
from equigeo.ops.self_test import Deviation, worst_deviation
from equigeo.ops.self_test_cases import Case, all_cases

CPU = torch.device("cpu")
CASES = {case.op: case for case in all_cases()}


@pytest.mark.parametrize("op", CASES)
def test_kernels_of_the_cpu_are_right_on_every_case(op):
    found = worst_deviation(CASES[op], CPU)
    assert found.is_tolerated, str(found)
    assert found.op == op


def planted(monkeypatch: pytest.MonkeyPatch, mistake: float, dtype: torch.dtype, order: int):
    """An op whose result of one order is wrong by so much, in one dtype."""
    right = compare._results

    def wrong(function, case: Case, features: tuple[Tensor, ...], rest, orders: int):
        found = right(function, case, features, rest, orders)
        if function is compare.declared(case.op) and features[0].dtype == dtype:
            if len(found) > order:
                found[order][0].data.flatten()[-1].add_(mistake)
        return found

    monkeypatch.setattr(compare, "_results", wrong)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_one_wrong_number_is_found_and_named(monkeypatch, order):
    planted(monkeypatch, 0.1, torch.float64, order)
    found = worst_deviation(CASES["channelwise_conv"], CPU)
    assert not found.is_tolerated
    part = ("values", "first gradients", "second gradients")[order]
    assert str(found).startswith(f"channelwise_conv, result 0 of the {part} in float64: it differs")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_dtype_is_looked_at(monkeypatch, dtype):
    planted(monkeypatch, 1.0, dtype, 0)
    found = worst_deviation(CASES["channelwise_product"], CPU)
    assert not found.is_tolerated
    assert str(dtype).removeprefix("torch.") in str(found)


@pytest.mark.parametrize("mistake", [math.nan, math.inf])
def test_what_is_no_number_is_not_tolerated(monkeypatch, mistake):
    planted(monkeypatch, mistake, torch.float32, 0)
    assert not worst_deviation(CASES["gather_sum"], CPU).is_tolerated


def test_flags_are_compared_too(monkeypatch):
    right = compare._results

    def wrong(function, case, features, rest, orders):
        found = right(function, case, features, rest, orders)
        if function is compare.declared(case.op):
            found[0] = (*found[0][:1], ~found[0][1], *found[0][2:])
        return found

    monkeypatch.setattr(compare, "_results", wrong)
    assert not worst_deviation(CASES["axis_flags"], CPU).is_tolerated


def test_a_deviation_is_a_sentence():
    found = Deviation("gather_sum", "result 0 of the values in float32", 0.5, 1e-4)
    assert str(found) == (
        "gather_sum, result 0 of the values in float32: it differs from the reference "
        "implementation by 0.5, where 0.0001 is tolerated"
    )
    assert found.share == 5000
    assert not found.is_tolerated
