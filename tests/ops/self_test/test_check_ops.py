"""Every op of the CPU, tested on demand."""

import pytest
import torch

from equigeo.ops import check_ops, kernels_info
from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.ops.self_test import check_ops as module
from equigeo.ops.self_test.compare import Deviation

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
