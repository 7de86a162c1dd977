"""The chart of rotations: axis times angle, half turns included."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from equigeo.groups import SO, matrix_exp, rotation_exp, rotation_log
from equigeo.testing import tolerance
from tests.groups.chart_cases import F64, generator


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_half_turns(dtype):
    r = torch.tensor([[-7, 4, 4], [4, -1, 8], [4, 8, -1]], dtype=dtype) / 9
    w = rotation_log(r)
    axis = torch.tensor([1, 2, 2], dtype=dtype) / 3
    torch.testing.assert_close(w * w[0].sign(), math.pi * axis, **tolerance(dtype))
    half = SO(3).special_elements()[0].to(dtype)
    assert rotation_log(half).abs().tolist() == [torch.tensor(math.pi, dtype=dtype).item(), 0, 0]
    planar = torch.tensor([[-1.0, -0.0], [-0.0, -1.0]], dtype=dtype)
    assert rotation_log(planar).item() == torch.tensor(math.pi, dtype=dtype).item()
    for k in (r, half, planar):
        torch.testing.assert_close(rotation_exp(rotation_log(k)), k, **tolerance(dtype))


@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float64, 4e-15), (torch.float32, 2e-6)], ids=str
)
def test_logarithms_near_half_turns(dtype, bound):
    axis = torch.randn(200, 3, dtype=torch.float64, generator=generator())
    axis = axis / axis.norm(dim=1, keepdim=True)
    for distance in (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        w = (math.pi - distance) * axis
        error = (rotation_log(rotation_exp(w).to(dtype)).double() - w).abs().max()
        # the matrix itself is rounded, which moves the rotation by this much
        assert float(error) < bound


vectors = hnp.arrays(float, 3, elements=st.floats(-1, 1)).map(torch.from_numpy)


@given(vectors, st.floats(-12, 0).map(lambda e: 10.0**e))
def test_rotation_chart_round_trip(direction, size):
    w = 1.8 * size * direction  # below a half turn
    r = rotation_exp(w)
    torch.testing.assert_close(r, matrix_exp(skew(w)), **F64)
    torch.testing.assert_close(rotation_log(r), w, **F64)
    torch.testing.assert_close(rotation_log(rotation_exp(w[:1])), w[:1], **F64)


def skew(w: Tensor) -> Tensor:
    return torch.einsum("...d,dij->...ij", w, SO(3).generators())


@pytest.mark.parametrize("angle", [0.0, 1e-3, 1.0, 3.0])
def test_derivatives_of_the_rotation_chart(angle):
    direction = torch.tensor([0.48, -0.6, 0.64], dtype=torch.float64)
    w = (angle * direction).requires_grad_()
    assert gradcheck(rotation_exp, w)
    assert gradgradcheck(rotation_exp, w)
    r = rotation_exp(w.detach()).requires_grad_()
    assert gradcheck(rotation_log, r)
    assert gradgradcheck(rotation_log, r)
    planar = w.detach()[:1].requires_grad_()
    assert gradcheck(lambda w: rotation_log(rotation_exp(w)), planar)
