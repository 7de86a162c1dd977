"""Every op of the CPU, tested on demand."""

import math

import pytest
import torch
from torch import Tensor

from equigeo.ops import check_ops, kernels_info, self_test
from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.ops.runtime.tape import Signature
from equigeo.ops.self_test import Deviation, worst_deviation
from equigeo.ops.self_test_cases import Case, all_cases
from tests.ops.test_kernel_bodies import OF_THE_CPU, WITHOUT_KERNELS

CASES = all_cases()


def test_every_op_that_has_cuda_kernels_has_one_case():
    names = [case.op for case in CASES]
    assert len(names) == len(set(names))
    assert set(names) == set(SCHEMAS) - WITHOUT_KERNELS - OF_THE_CPU


def test_a_case_gives_every_argument_of_its_op():
    for case in CASES:
        names = Signature.parse(SCHEMAS[case.op]).arguments
        assert len(case.features) + len(case.rest) == len(names), case.op


def test_features_round_to_themselves_and_are_not_few_numbers():
    for case in CASES:
        for x in case.features:
            assert x.dtype == torch.float64
            assert torch.equal(x, x.bfloat16().double())
            assert x.numel() < 3 or x.flatten().unique().numel() > 2, case.op


def test_cases_are_the_same_every_time():
    for one, other in zip(CASES, all_cases(), strict=True):
        assert all(map(torch.equal, one.features, other.features))


needs_kernels = pytest.mark.skipif(kernels_info()["cpu"] is None, reason="no compiled kernels")


@needs_kernels
def test_every_op_with_a_kernel_passes():
    found = {one.op: one for one in check_ops()}
    assert found.keys() == SCHEMAS.keys()
    passed = {name for name, one in found.items() if one.state == "passed"}
    assert passed == SCHEMAS.keys() - WITHOUT_KERNELS
    assert sum(one.seconds for one in found.values()) < 30


def test_a_device_without_kernels_has_nothing_to_compare():
    assert {one.state for one in check_ops("meta")} == {"reference only"}


@needs_kernels
def test_what_is_wrong_is_said(monkeypatch):
    wrong = Deviation("gather_sum", "result 0", 1.0, 0.1)
    monkeypatch.setattr(self_test, "worst_deviation", lambda case, device: wrong)
    assert all(one.state == "failed" for one in check_ops() if one.op not in WITHOUT_KERNELS)

    def broken(case, device):
        raise RuntimeError("no\nmemory")

    monkeypatch.setattr(self_test, "worst_deviation", broken)
    (one,) = (one for one in check_ops(torch.device("cpu")) if one.op == "gather_sum")
    assert (one.state, one.text) == ("failed", "gather_sum: no memory")


CPU = torch.device("cpu")
CASES_OF = {case.op: case for case in all_cases()}


@pytest.mark.parametrize("op", CASES_OF)
def test_kernels_of_the_cpu_are_right_on_every_case(op):
    found = worst_deviation(CASES_OF[op], CPU)
    assert found.is_tolerated, str(found)
    assert found.op == op


def planted(monkeypatch: pytest.MonkeyPatch, mistake: float, dtype: torch.dtype, order: int):
    """An op whose result of one order is wrong by so much, in one dtype."""
    right = self_test._results

    def wrong(function, case: Case, features: tuple[Tensor, ...], rest, orders: int):
        found = right(function, case, features, rest, orders)
        if function is self_test.declared(case.op) and features[0].dtype == dtype:
            if len(found) > order:
                found[order][0].data.flatten()[-1].add_(mistake)
        return found

    monkeypatch.setattr(self_test, "_results", wrong)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_one_wrong_number_is_found_and_named(monkeypatch, order):
    planted(monkeypatch, 0.1, torch.float64, order)
    found = worst_deviation(CASES_OF["channelwise_conv"], CPU)
    assert not found.is_tolerated
    part = ("values", "first gradients", "second gradients")[order]
    assert str(found).startswith(f"channelwise_conv, result 0 of the {part} in float64: it differs")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_dtype_is_looked_at(monkeypatch, dtype):
    planted(monkeypatch, 1.0, dtype, 0)
    found = worst_deviation(CASES_OF["channelwise_product"], CPU)
    assert not found.is_tolerated
    assert str(dtype).removeprefix("torch.") in str(found)


@pytest.mark.parametrize("mistake", [math.nan, math.inf])
def test_what_is_no_number_is_not_tolerated(monkeypatch, mistake):
    planted(monkeypatch, mistake, torch.float32, 0)
    assert not worst_deviation(CASES_OF["gather_sum"], CPU).is_tolerated


def test_flags_are_compared_too(monkeypatch):
    right = self_test._results

    def wrong(function, case, features, rest, orders):
        found = right(function, case, features, rest, orders)
        if function is self_test.declared(case.op):
            found[0] = (*found[0][:1], ~found[0][1], *found[0][2:])
        return found

    monkeypatch.setattr(self_test, "_results", wrong)
    assert not worst_deviation(CASES_OF["axis_flags"], CPU).is_tolerated


def test_a_deviation_is_a_sentence():
    found = Deviation("gather_sum", "result 0 of the values in float32", 0.5, 1e-4)
    assert str(found) == (
        "gather_sum, result 0 of the values in float32: it differs from the reference "
        "implementation by 0.5, where 0.0001 is tolerated"
    )
    assert found.share == 5000
    assert not found.is_tolerated
