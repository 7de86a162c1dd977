"""Charts, exponentials and polar decompositions: values, derivatives and errors."""

import math

import pytest
import scipy.linalg
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
    polar,
    rotation_exp,
    rotation_log,
    spd_sqrt,
)
from equigeo.groups.polar import spd_exp, spd_log
from equigeo.testing import tolerance
from tests.draws import generator
from tests.groups.cases import F64, ORACLE, coordinates
from tests.wrong_inputs import refused


def proper(group: Group, k: int = 40) -> Tensor:
    """Random elements of the component of the identity."""
    g = group.sample(4 * k, radius=1.0, generator=generator())
    return g[torch.linalg.det(g) > 0][:k]


def test_round_trips(group):
    assert group.dimension == len(group.generators())
    assert group.coordinates(group.identity()).tolist() == [0.0] * group.dimension
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
    h = group.sample(1, radius=0.5, generator=generator())
    h = h if torch.linalg.det(h) > 0 else h @ group.components()[1]

    def relative(c: Tensor) -> Tensor:
        return group.coordinates(h @ group.from_coordinates(c))

    assert_derivatives(relative, torch.cat([c, torch.zeros_like(c)]))


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


def test_matrices_that_are_no_elements_have_no_coordinates(group):
    g = group.identity()
    g[0, 0] = 0.0
    refused("no elements of", group.coordinates, g)
    size, vector = group.size, torch.zeros(group.dimension + 1)
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        message = f"must be float32 or float64, got {dtype}"
        refused(message, group.coordinates, torch.eye(size, dtype=dtype))
        refused(message, group.from_coordinates, vector[1:].to(dtype))
    refused(r"elements of .* are \(\.\.\., ", group.coordinates, torch.eye(5))
    for call in (group.from_coordinates, group.haar_density):
        refused(r"coordinates of .* are \(\.\.\., ", call, vector)


def test_improper_and_other_matrices_have_no_coordinates():
    for group in (O(3), GL(3), Similarity(3), Affine(O(3))):
        message = "got 1 improper elements, which have no"
        refused(message, group.coordinates, group.components())
    bad = torch.eye(3).double()
    bad[0, 0] = -3.0
    for kind in (SO, SL, GLPlus, Scaling):
        message = rf"1 of 2 matrices are no elements of {kind.__name__}"
        refused(message, kind(3).coordinates, torch.stack([torch.eye(3).double(), bad]))
        refused("no elements of", kind(3).coordinates, torch.full((3, 3), math.nan))
    refused(r"last row 0 \.\.\. 0 1", Affine(GL(2)).coordinates, 2 * torch.eye(3))


FUNCTIONS = (polar, spd_exp, spd_log, spd_sqrt)


def test_other_shapes_and_coarse_types_raise():
    for fn in FUNCTIONS:
        refused(r"must be \(\.\.\., n, n\), got \(2, 3\)", fn, torch.ones(2, 3))
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        for fn in FUNCTIONS:
            message = f"must be float32 or float64, got {dtype}"
            refused(message, fn, torch.eye(2, dtype=dtype))
        refused("must be float32 or float64", rotation_exp, torch.zeros(1, dtype=dtype))
    message = "must have positive determinant: 1 of 1"
    refused(message, rotation_log, torch.diag(torch.tensor([1.0, 1.0, -1.0])))
    refused(r"\(\.\.\., 2, 2\) or \(\.\.\., 3, 3\), got \(4, 4\)", rotation_log, torch.eye(4))
    refused(r"angles or \(\.\.\., 3\) axes, got \(2,\)", rotation_exp, torch.zeros(2))


def test_autocast_does_not_reach_charts_and_decompositions():
    g, close = proper(GLPlus(3)).float(), tolerance(torch.float32, 9, 20)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        again = GLPlus(3).from_coordinates(GLPlus(3).coordinates(g))
        p, r = polar(g)
        y = spd_log(p)
    torch.testing.assert_close(again, g, **close)
    torch.testing.assert_close(p @ r, g, **close)
    torch.testing.assert_close(spd_exp(y), p, **close)


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
    torch.testing.assert_close(
        r, matrix_exp(torch.einsum("d,dij->ij", w, SO(3).generators())), **F64
    )
    torch.testing.assert_close(rotation_log(r), w, **F64)
    torch.testing.assert_close(rotation_log(rotation_exp(w[:1])), w[:1], **F64)


@pytest.mark.parametrize("angle", [0.0, 1e-3, 1.0, 3.0])
def test_derivatives_of_the_rotation_chart(angle):
    w = angle * torch.tensor([0.48, -0.6, 0.64], dtype=torch.float64)
    assert_derivatives(rotation_log, rotation_exp(w))
    assert gradcheck(lambda w: rotation_log(rotation_exp(w)), w[:1].clone().requires_grad_())
    assert_derivatives(rotation_exp, w)


def matrices(n: int, k: int, *, spread: float = 0.8) -> Tensor:
    return GLPlus(n).sample(k, radius=spread, generator=generator())


def positive(n: int, k: int) -> Tensor:
    g = matrices(n, k)
    return g @ g.mT


def energy(g: Tensor) -> Tensor:
    p, r = polar(g)
    return (spd_log(p) @ r).square().sum()


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_polar_factors(n, dtype):
    g = matrices(n, 200, spread=1.5).to(dtype)
    p, r = polar(g)
    close = tolerance(dtype, terms=n, condition=20)  # rounding of the inverse in the iteration
    torch.testing.assert_close(p @ r, g, **close)
    torch.testing.assert_close(r @ r.mT, torch.eye(n, dtype=dtype).expand_as(r), **close)
    assert torch.equal(p, p.mT)
    assert (torch.linalg.eigvalsh(p) > 0).all()
    assert (torch.linalg.det(r) > 0).all()


@pytest.mark.parametrize("n", [2, 3])
def test_polar_of_thin_matrices(n):
    stretch = torch.diag(torch.logspace(-5, 5, n, dtype=torch.float64))
    k = SO(n).haar(20, generator=generator())
    _, r = polar(k @ stretch @ k.mT @ k)
    torch.testing.assert_close(r, k, **tolerance(torch.float64, condition=1e10))
    tiny, _ = polar(1e-120 * stretch)
    torch.testing.assert_close(tiny * 1e120, stretch, **F64)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_round_trips_of_positive_matrices(n, dtype):
    s = (positive(n, 200) if n > 1 else positive(2, 200)[:, :1, :1]).to(dtype)
    close = tolerance(dtype, terms=n, condition=20)
    torch.testing.assert_close(spd_exp(spd_log(s)), s, **close)
    torch.testing.assert_close(spd_log(spd_exp(s)), s, **close)
    torch.testing.assert_close(spd_sqrt(s) @ spd_sqrt(s), s, **close)
    torch.testing.assert_close(spd_exp(s), torch.linalg.matrix_exp(s), **tolerance(dtype, 9, 400))


@given(
    st.sampled_from([2, 3]),
    st.floats(-3, 3),
    st.floats(-14, 0).map(lambda e: 10.0**e),
    st.integers(0, 2**20),
)
def test_nearly_equal_eigenvalues(n, shift, gap, seed):
    k = SO(n).haar(1, generator=generator(seed))[0]
    logs = shift + gap * torch.arange(n).double()
    y = k @ torch.diag(logs) @ k.mT
    p = k @ torch.diag(logs.exp()) @ k.mT
    scale = p.abs().max()
    torch.testing.assert_close(spd_exp(y) / scale, p / scale, **F64)
    torch.testing.assert_close(spd_log(p), y, **F64)
    root = k @ torch.diag((logs / 2).exp()) @ k.mT
    torch.testing.assert_close(spd_sqrt(p) / scale.sqrt(), root / scale.sqrt(), **F64)


def test_batches_and_strides():
    g = matrices(3, 12).reshape(3, 4, 3, 3)
    p, r = polar(g)
    assert p.shape == r.shape == g.shape
    torch.testing.assert_close(polar(g.mT)[0][1, 2], polar(g[1, 2].mT.contiguous())[0], **F64)
    for fn in (spd_exp, spd_log, spd_sqrt):
        torch.testing.assert_close(fn(p)[2, 3], fn(p[2, 3]), **F64)
        assert fn(p[:0]).shape == (0, 4, 3, 3)
    assert polar(g[:0])[0].shape == (0, 4, 3, 3)


HARD = {
    "generic": [0.7, 1.3, 2.6],
    "near": [0.9, 0.93, 1.0],
    "double": [0.8, 1.5, 1.5],
    "equal": [2.0, 2.0, 2.0],
    "wide": [0.1, 1.0, 8.0],
}


@pytest.mark.parametrize("values", HARD.values(), ids=HARD)
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("fn", [spd_exp, spd_log, spd_sqrt], ids=lambda fn: fn.__name__)
def test_derivatives_of_spectral_functions(fn, n, values):
    k = SO(n).haar(1, generator=generator())
    assert_derivatives(fn, k @ torch.diag(torch.tensor(values[-n:]).double()) @ k.mT)


def assert_derivatives(fn, x: Tensor) -> None:
    assert gradcheck(fn, x.requires_grad_())
    assert gradgradcheck(fn, x)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_derivatives_of_the_polar_decomposition(n):
    assert_derivatives(polar, torch.cat([matrices(n, 2), SO(n).haar(1, generator=generator())]))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_functional_transforms(n):
    g = matrices(n, 3).requires_grad_()
    (want,) = torch.autograd.grad(energy(g), g)
    g = g.detach()
    torch.testing.assert_close(torch.func.grad(energy)(g), want, **F64)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(energy))(g), want, **F64)

    def log(g: Tensor) -> Tensor:
        return spd_log(polar(g)[0])

    want = torch.autograd.functional.jacobian(log, g[0])
    torch.testing.assert_close(torch.func.jacrev(log)(g[0]), want, **F64)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # from tracing
def test_decompositions_compile_and_the_chart_is_exported():
    g = matrices(3, 3).requires_grad_()
    compiled = torch.compile(energy, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(g), energy(g), **F64)
    (got,), (want,) = (torch.autograd.grad(fn(g), g) for fn in (compiled, energy))
    torch.testing.assert_close(got, want, **F64)

    class Chart(torch.nn.Module):
        def forward(self, g: Tensor) -> Tensor:
            return GLPlus(3).from_coordinates(GLPlus(3).coordinates(g))

    g = proper(GLPlus(3))
    torch.testing.assert_close(torch.export.export(Chart(), (g,)).module()(g), g, **F64)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_singular_and_improper_matrices_have_no_factors(n):
    good, mirror = torch.eye(n).double(), torch.eye(n).double()
    mirror[0, 0] = -1.0
    singular = torch.ones(n, n, dtype=torch.float64) / 3 + torch.arange(n) / 7
    message = "1 of 2 are singular, improper or not finite"
    for bad in (mirror, singular, torch.zeros(n, n).double(), good * math.nan, good * math.inf):
        refused(message, polar, torch.stack([good, bad]))
    indefinite = torch.diag(torch.tensor([-1.0] + [2.0] * (n - 1)))
    for fn in (spd_log, spd_sqrt):
        for bad in (indefinite, torch.zeros(n, n)):
            refused("needs positive definite matrices: 1 of 1", fn, bad)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e160, 1e300])
def test_polar_factors_at_every_scale(n, scale):
    g = matrices(n, 3)
    (p, r), (big, same) = polar(g), polar(scale * g)
    torch.testing.assert_close(same, r, **F64)
    torch.testing.assert_close(big / scale, p, **F64)
    slopes = []
    for size in (1.0, scale):
        x = (size * g).requires_grad_()
        slopes.append(size * torch.autograd.grad(polar(x)[1][:, 0].sum(), x)[0])
    torch.testing.assert_close(*slopes, **F64)


@pytest.mark.parametrize("n", [2, 3])
def test_functions_of_positive_matrices_at_every_scale(n):
    p, eye = positive(n, 3).float(), torch.eye(n)
    close = tolerance(torch.float32, terms=16, condition=20)
    for size in (2.0**-120, 2.0**-60, 2.0**60, 2.0**100):
        log = spd_log(p) + math.log(size) * eye
        torch.testing.assert_close(spd_log(size * p), log, **close)
        torch.testing.assert_close(spd_sqrt(size * p) / size**0.5, spd_sqrt(p), **close)
        # Errors of a logarithm of 83 are as many times larger after its exponential.
        wide = tolerance(torch.float32, terms=16, condition=20 * 83)
        torch.testing.assert_close(spd_exp(log) / size, p, **wide)


@pytest.mark.parametrize("n", [2, 3])
def test_exponentials_of_one_small_and_one_large_number(n):
    y = torch.diag(torch.tensor([0.0, -180.0, 0.0][:n]))
    want = torch.diag(torch.tensor([1.0, 0.0, 1.0][:n]))
    for exponential in (spd_exp, GL(n).exp):
        torch.testing.assert_close(exponential(y), want, **tolerance(torch.float32))
    up = torch.diag(torch.tensor([80.0, -80.0, 0.0][:n]))
    assert bool(spd_exp(up).isfinite().all())


@pytest.mark.parametrize("size", [1e-40, 1e-24, 1e24, 1e37])
@pytest.mark.parametrize("group", [GL(2), GL(3), GLPlus(2), GLPlus(3), Similarity(3), Scaling(2)])
def test_groups_hold_their_elements_at_every_scale(group, size):
    eye = size * torch.eye(group.n)
    assert bool(group.contains(eye))
    mirror = eye.clone()
    mirror[0, 0] *= -1
    assert bool(group.contains(mirror)) == (len(group.components()) == 2)
    assert not bool(group.contains(0 * eye))
    singular = torch.ones(group.n, group.n) * size
    assert not bool(group.contains(singular))
    c = group.coordinates(eye)
    stretch = c[: group.symmetric_dimension].abs().max()
    assert float(stretch) == pytest.approx(abs(math.log(size)), rel=1e-5)  # eps times 92, the log
    if size > 1e-38:  # an inverse of float32
        torch.testing.assert_close(group.inverse(eye) * size, torch.eye(group.n))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_single_matrices_are_exponentiated_as_precisely_as_batches(dtype):
    for size in torch.logspace(-4, 0, 41).tolist():
        x = size * torch.randn(3, 3, dtype=torch.float64, generator=generator())
        want = torch.from_numpy(scipy.linalg.expm(x.numpy())).to(dtype)
        torch.testing.assert_close(matrix_exp(x.to(dtype)), want, **tolerance(dtype, 3, 20))


def test_exponentials_of_affine_and_planar_matrices():
    group = Affine(GL(2))
    linear = torch.tensor([[0.3, -0.5], [0.2, 0.1]], dtype=torch.float64)
    x = torch.nn.functional.pad(linear, (0, 1, 0, 1))
    x[:2, 2] = x.new_tensor([1.0, 2.0])
    translation = group.exp(x)[:2, 2]
    want = torch.linalg.solve(linear, (GL(2).exp(linear) - torch.eye(2)) @ x[:2, 2])
    torch.testing.assert_close(translation, want, **F64)
    want = x.new_tensor([0.5788532801, 2.1793058955])
    torch.testing.assert_close(translation, want, rtol=0, atol=1e-10)  # ten decimals
    x = torch.tensor([[[0.5, 1.0], [0.0, 0.5]], [[0.0, 1.0], [1.0, 0.0]]], dtype=torch.float64)
    torch.testing.assert_close(GL(2).exp(x), matrix_exp(x), **F64)
