"""Polar decomposition, matrix functions and exponentials: values and derivatives."""

import math

import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from equigeo.groups import (
    GL,
    SO,
    Affine,
    GLPlus,
    O,
    Scaling,
    Similarity,
    matrix_exp,
    polar,
    rotation_exp,
    spd_sqrt,
)
from equigeo.groups.polar import spd_exp, spd_log
from equigeo.testing import tolerance
from tests.draws import generator

F64 = tolerance(torch.float64, terms=16, condition=20)


def matrices(n: int, k: int, *, spread: float = 0.8, seed: int = 0) -> Tensor:
    return GLPlus(n).sample(k, radius=spread, generator=generator(seed))


def positive(n: int, k: int, *, spread: float = 0.8, seed: int = 0) -> Tensor:
    g = matrices(n, k, spread=spread, seed=seed)
    return g @ g.mT


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
def test_first_and_second_derivatives_of_spectral_functions(fn, n, values):
    k = SO(n).haar(1, generator=generator())
    s = (k @ torch.diag(torch.tensor(values[-n:]).double()) @ k.mT).requires_grad_()
    assert gradcheck(fn, s)
    assert gradgradcheck(fn, s)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_first_and_second_derivatives_of_the_polar_decomposition(n):
    stretched = matrices(n, 2)
    g = torch.cat([stretched, SO(n).haar(1, generator=generator())]).requires_grad_()
    assert gradcheck(polar, g)
    assert gradgradcheck(polar, g)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_functional_transforms(n):
    g = matrices(n, 3).requires_grad_()

    def energy(g: Tensor) -> Tensor:
        p, r = polar(g)
        return (spd_log(p) @ r).square().sum()

    (want,) = torch.autograd.grad(energy(g), g)
    g = g.detach()
    torch.testing.assert_close(torch.func.grad(energy)(g), want, **F64)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(energy))(g), want, **F64)
    jacobian = torch.func.jacrev(lambda g: spd_log(polar(g)[0]))(g[0])
    torch.testing.assert_close(
        jacobian, torch.autograd.functional.jacobian(lambda g: spd_log(polar(g)[0]), g[0]), **F64
    )


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # from tracing
def test_decompositions_compile():
    g = matrices(3, 3).requires_grad_()

    def energy(g: Tensor) -> Tensor:
        p, r = polar(g)
        return (spd_log(p) @ r).square().sum()

    compiled = torch.compile(energy, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(g), energy(g), **F64)
    (got,), (want,) = (torch.autograd.grad(fn(g), g) for fn in (compiled, energy))
    torch.testing.assert_close(got, want, **F64)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_singular_and_improper_matrices_are_refused(n):
    good, mirror = torch.eye(n).double(), torch.eye(n).double()
    mirror[0, 0] = -1.0
    singular = torch.ones(n, n, dtype=torch.float64) / 3 + torch.arange(n) / 7
    for bad in (mirror, singular, torch.zeros(n, n).double(), good * math.nan, good * math.inf):
        with pytest.raises(ValueError, match="1 of 2 are singular, improper or not finite"):
            polar(torch.stack([good, bad]))
    indefinite = torch.diag(torch.tensor([-1.0] + [2.0] * (n - 1)))
    for fn in (spd_log, spd_sqrt):
        for bad in (indefinite, torch.zeros(n, n)):
            with pytest.raises(ValueError, match="needs positive definite matrices: 1 of 1"):
                fn(bad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
def test_coarse_types_are_refused(dtype):
    for fn in (polar, spd_exp, spd_log, spd_sqrt):
        with pytest.raises(ValueError, match=f"must be float32 or float64, got {dtype}"):
            fn(torch.eye(2, dtype=dtype))
    with pytest.raises(ValueError, match="must be float32 or float64"):
        rotation_exp(torch.zeros(1, dtype=dtype))


def test_other_shapes_are_refused():
    for fn in (polar, spd_exp, spd_log, spd_sqrt):
        with pytest.raises(ValueError, match=r"must be \(\.\.\., n, n\), got \(2, 3\)"):
            fn(torch.ones(2, 3))


def test_automatic_types_do_not_reach_decompositions():
    g = matrices(3, 5).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        p, r = polar(g)
        y = spd_log(p)
    torch.testing.assert_close(p @ r, g, **tolerance(torch.float32, 9, 20))
    torch.testing.assert_close(spd_exp(y), p, **tolerance(torch.float32, 9, 20))


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


def test_haar_measure_is_invariant_under_translation():
    g = O(2).haar(100_000, generator=generator())
    assert float(g.mean(0).abs().max()) < 0.02
    error = 5 * 0.5 / math.sqrt(100_000)  # five standard errors
    assert float((torch.linalg.det(g) > 0).double().mean()) == pytest.approx(0.5, abs=error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_single_matrices_are_exponentiated_as_precisely_as_batches(dtype):
    for size in torch.logspace(-4, 0, 41).tolist():
        x = size * torch.randn(3, 3, dtype=torch.float64, generator=generator())
        want = torch.from_numpy(scipy.linalg.expm(x.numpy())).to(dtype)
        torch.testing.assert_close(matrix_exp(x.to(dtype)), want, **tolerance(dtype, 3, 20))


def test_translation_of_an_affine_exponential():
    group = Affine(GL(2))
    linear = torch.tensor([[0.3, -0.5], [0.2, 0.1]], dtype=torch.float64)
    x = torch.nn.functional.pad(linear, (0, 1, 0, 1))
    x[:2, 2] = x.new_tensor([1.0, 2.0])
    translation = group.exp(x)[:2, 2]
    want = torch.linalg.solve(linear, (GL(2).exp(linear) - torch.eye(2)) @ x[:2, 2])
    torch.testing.assert_close(translation, want, **F64)
    want = x.new_tensor([0.5788532801, 2.1793058955])
    torch.testing.assert_close(translation, want, rtol=0, atol=1e-10)  # ten decimals
