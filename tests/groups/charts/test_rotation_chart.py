"""The chart of rotations: axis times angle, half turns included."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from equigeo.groups import SO, GLPlus, matrix_exp, rotation_exp, rotation_log
from equigeo.testing import tolerance
from tests.groups.charts.chart_cases import F64, ORACLE, generator


def test_rodrigues_oracles():
    r = rotation_exp(torch.tensor([[0.1, -0.2, 0.3], [1.0, 2.0, 2.0]], dtype=torch.float64))
    want = [
        [0.935754803278, -0.302932713403, -0.180540076694],
        [0.283164960565, 0.950580617906, -0.127334574918],
        [0.210191705951, 0.068031316405, 0.975290308953],
    ]
    torch.testing.assert_close(r[0], r.new_tensor(want), **ORACLE)
    got = [r[0].trace(), *r[1, 0], r[1].trace()]
    want = [2.861625730137, -0.768882219200, 0.348140549427, 0.536300560173, -0.979984993201]
    torch.testing.assert_close(torch.stack(got), r.new_tensor(want), **ORACLE)
    spatial = torch.tensor([[1.1, 0.2, -0.1], [-0.3, 0.9, 0.25], [0.15, -0.05, 1.3]])
    spatial = spatial.double().mul(100).round() / 100
    omega = GLPlus(3).coordinates(spatial)[-3:]
    want = omega.new_tensor([-0.132767285370, -0.108798674113, -0.249175026485])
    torch.testing.assert_close(omega, want, **ORACLE)


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
