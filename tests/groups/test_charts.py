"""Charts of the groups and of rotations."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from equigeo.groups import (
    GL,
    SL,
    SO,
    Affine,
    GLPlus,
    Group,
    O,
    Scaling,
    Similarity,
    matrix_exp,
    rotation_exp,
    rotation_log,
)
from equigeo.testing import tolerance
from tests.groups.cases import F64, ORACLE, coordinates, generator
from tests.wrong_inputs import refused


def proper(group: Group, k: int = 40) -> Tensor:
    """Random elements of the component of the identity."""
    g = group.sample(4 * k, radius=1.0, generator=generator())
    return g[torch.linalg.det(g) > 0][:k]


def test_dimensions(group):
    assert group.dimension == len(group.generators())
    assert group.coordinates(group.identity()).tolist() == [0.0] * group.dimension


def test_round_trips(group):
    for dtype in (torch.float32, torch.float64):
        g = proper(group).to(dtype)
        close = tolerance(dtype, terms=group.size, condition=20)
        c = group.coordinates(g)
        assert c.shape == (40, group.dimension)
        assert c.dtype == dtype
        torch.testing.assert_close(group.from_coordinates(c), g, **close)
        c = coordinates(group, 40).to(dtype)
        torch.testing.assert_close(group.coordinates(group.from_coordinates(c)), c, **close)


def test_small_coordinates_are_those_of_the_generators(group):
    c = 1e-7 * coordinates(group, 5)
    x = torch.einsum("kd,dij->kij", c, group.generators())
    error = group.from_coordinates(c) - group.identity() - x
    assert float(error.abs().max()) < 1e-13  # second order


def test_batches(group):
    g = proper(group, 12).reshape(3, 4, group.size, group.size)
    c = group.coordinates(g)
    assert c.shape == (3, 4, group.dimension)
    torch.testing.assert_close(group.coordinates(g[1, 2]), c[1, 2], **F64)
    assert group.haar_density(c).shape == group.log_stretch(g).shape == (3, 4)
    assert group.from_coordinates(c[:0]).shape == (0, 4, group.size, group.size)
    assert group.coordinates(g[:0]).shape == (0, 4, group.dimension)


@pytest.mark.parametrize("group", [SL(2), GLPlus(3), Similarity(3)], ids=str)
def test_derivatives_of_the_chart(group):
    c = coordinates(group, 1)
    c = torch.cat([c, torch.zeros_like(c)]).requires_grad_()
    h = group.sample(1, radius=0.5, generator=generator())
    h = h if torch.linalg.det(h) > 0 else h @ group.components()[1]

    def relative(c: Tensor) -> Tensor:
        return group.coordinates(h @ group.from_coordinates(c))

    assert gradcheck(relative, c)
    assert gradgradcheck(relative, c)


def test_matrices_without_logarithm_have_coordinates():
    g = torch.tensor([[[-2.0, 0.0], [0.0, -0.5]], [[-1.0, 1.0], [0.0, -1.0]]]).double()
    c = SL(2).coordinates(g)
    root = math.sqrt(2)
    want = [[root * math.log(2), 0.0, math.pi], [root * 0.215204470482, 0.0, -2.677945044589]]
    want[1][1] = -root * 0.430408940964
    torch.testing.assert_close(c, c.new_tensor(want), **ORACLE)
    torch.testing.assert_close(SL(2).from_coordinates(c), g, **F64)


def test_coordinates_follow_conjugation_by_rotations():
    g, k = proper(GLPlus(3)), SO(3).haar(40, generator=generator(1))
    c, moved = GLPlus(3).coordinates(g), GLPlus(3).coordinates(k @ g @ k.mT)
    basis = GLPlus(3).generators()[:6]
    y, z = (torch.einsum("kd,dij->kij", x[:, :6], basis) for x in (c, moved))
    torch.testing.assert_close(z, k @ y @ k.mT, **F64)
    axis = (k @ c[:, 6:, None])[..., 0]
    torch.testing.assert_close(rotation_exp(moved[:, 6:]), rotation_exp(axis), **F64)


@pytest.mark.parametrize("n", [2, 3])
def test_closed_forms_of_the_exponential(n):
    for group in (SO(n), O(n), GL(n), SL(n)):
        for size in (1e-6, 1e-2, 1.0, 3.0):
            weight = size * torch.randn(30, group.dimension, generator=generator()).double()
            x = torch.einsum("kd,dij->kij", weight, group.generators())
            want = matrix_exp(x)
            scale = want.abs().amax((-2, -1), keepdim=True).clamp(min=1)
            torch.testing.assert_close(group.exp(x) / scale, want / scale, **F64)


def test_exponentials_of_planar_matrices_with_equal_or_opposite_eigenvalues():
    x = torch.tensor([[[0.5, 1.0], [0.0, 0.5]], [[0.0, 1.0], [1.0, 0.0]]], dtype=torch.float64)
    torch.testing.assert_close(GL(2).exp(x), matrix_exp(x), **F64)


def test_log_stretch(group):
    g, h = proper(group), proper(group).flip(0)
    rho = group.log_stretch
    values = torch.linalg.svdvals(g[:, : group.n, : group.n])
    torch.testing.assert_close(rho(g), values.log().abs().amax(-1), **F64)
    assert (rho(g @ h) <= rho(g) + rho(h) + 1e-12).all()
    torch.testing.assert_close(rho(group.inverse(g)), rho(g), **F64)
    k = torch.zeros_like(g)
    k[:, -1, -1] = 1.0
    k[:, : group.n, : group.n] = O(group.n).haar(len(g), generator=generator(1))
    torch.testing.assert_close(rho(k @ g @ k.mT), rho(g), **F64)


def test_automatic_types_do_not_reach_the_chart():
    g = proper(GLPlus(3)).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        again = GLPlus(3).from_coordinates(GLPlus(3).coordinates(g))
    torch.testing.assert_close(again, g, **tolerance(torch.float32, 9, 20))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # from tracing
def test_the_chart_is_exported():
    class Chart(torch.nn.Module):
        def forward(self, g: Tensor) -> Tensor:
            return GLPlus(3).from_coordinates(GLPlus(3).coordinates(g))

    g = proper(GLPlus(3))
    exported = torch.export.export(Chart(), (g,)).module()
    torch.testing.assert_close(exported(g), g, **F64)


def test_improper_elements_have_no_coordinates():
    for group in (O(3), GL(3), Similarity(3), Affine(O(3))):
        with pytest.raises(ValueError, match=r"got 1 improper elements, which have no"):
            group.coordinates(group.components())


@pytest.mark.parametrize("kind", [SO, SL, GLPlus, Scaling])
def test_other_matrices_have_no_coordinates(kind):
    bad = torch.eye(3).double()
    bad[0, 0] = -3.0
    with pytest.raises(ValueError, match=rf"1 of 2 matrices are no elements of {kind.__name__}"):
        kind(3).coordinates(torch.stack([torch.eye(3).double(), bad]))
    with pytest.raises(ValueError, match="no elements of"):
        kind(3).coordinates(torch.full((3, 3), math.nan))


def test_singular_matrices_have_no_coordinates(group):
    g = group.identity()
    g[0, 0] = 0.0
    with pytest.raises(ValueError, match="no elements of"):
        group.coordinates(g)


def test_coarse_types_are_refused(group):
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        with pytest.raises(ValueError, match=f"must be float32 or float64, got {dtype}"):
            group.coordinates(torch.eye(group.size, dtype=dtype))
        with pytest.raises(ValueError, match=f"must be float32 or float64, got {dtype}"):
            group.from_coordinates(torch.zeros(group.dimension, dtype=dtype))


def test_other_shapes_are_refused(group):
    refused(r"elements of .* are \(\.\.\., ", group.coordinates, torch.eye(5))
    with pytest.raises(ValueError, match=r"coordinates of .* are \(\.\.\., "):
        group.from_coordinates(torch.zeros(group.dimension + 1))
    with pytest.raises(ValueError, match=r"coordinates of .* are \(\.\.\., "):
        group.haar_density(torch.zeros(group.dimension + 1))
    with pytest.raises(ValueError, match="must have positive determinant: 1 of 1"):
        rotation_log(torch.diag(torch.tensor([1.0, 1.0, -1.0])))
    refused(r"\(\.\.\., 2, 2\) or \(\.\.\., 3, 3\), got \(4, 4\)", rotation_log, torch.eye(4))
    refused(r"angles or \(\.\.\., 3\) axes, got \(2,\)", rotation_exp, torch.zeros(2))


def test_homogeneous_matrices_need_their_last_row():
    with pytest.raises(ValueError, match=r"last row 0 \.\.\. 0 1"):
        Affine(GL(2)).coordinates(2 * torch.eye(3))


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
