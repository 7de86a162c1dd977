"""Every op of the CPU, tested on demand."""

import pytest
import torch

from equigeo.ops import check_ops, kernels_info
from equigeo.ops import self_test as module
from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.ops.runtime.tape import Signature
from equigeo.ops.self_test import Deviation
from equigeo.ops.self_test_cases import all_cases

OF_THE_CPU = {"attention_conv", "relu_batch_norm"}
WITHOUT_CUDA_KERNELS = {
    "principal_axes_nd",
    *OF_THE_CPU,
    *(f"{name}_backward" for name in OF_THE_CPU),
    "copywise_product_double_backward",
    "fully_connected_product_double_backward",
}
CASES = all_cases()


def test_every_op_that_has_cuda_kernels_has_one_case():
    names = [case.op for case in CASES]
    assert len(names) == len(set(names))
    assert set(names) == set(SCHEMAS) - WITHOUT_CUDA_KERNELS


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
WITHOUT_KERNELS = {"principal_axes_nd"}


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
    monkeypatch.setattr(module, "worst_deviation", lambda case, device: wrong)
    assert all(one.state == "failed" for one in check_ops() if one.op not in WITHOUT_KERNELS)

    def broken(case, device):
        raise RuntimeError("no\nmemory")

    monkeypatch.setattr(module, "worst_deviation", broken)
    (one,) = (one for one in check_ops(torch.device("cpu")) if one.op == "gather_sum")
    assert (one.state, one.text) == ("failed", "gather_sum: no memory")
