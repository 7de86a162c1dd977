"""Radial functions: published values, orthonormality, smoothness and derivatives everywhere."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch.func import grad
from torch.nn.functional import silu

from equigeo.nn import BesselBasis, GaussianBasis, PolynomialCutoff, RadialMLP
from equigeo.nn.radial import sin_over
from equigeo.testing import tolerance
from tests.draws import random
from tests.wrong_inputs import refused

DOUBLE = torch.float64
AT_HALF = [0.2529822128, 0, -0.2529822128, 0, 0.2529822128, 0, -0.2529822128, 0]
NEAR = [0.3664930260, 0.5647754598, 0.5038409160, 0.2116567362]
NEAR += [-0.1776722796, -0.4854544248, -0.5704258466, -0.3935869128]


@pytest.mark.parametrize(("r", "values"), [(2.5, AT_HALF), (1.1, NEAR)])
@pytest.mark.parametrize("trainable", [False, True])
def test_values_of_the_specification(r, values, trainable):
    basis = BesselBasis(5.0, trainable=trainable).double()
    found = basis(torch.tensor([r], dtype=DOUBLE))
    # parameters start in float32, and sines of up to 8 pi / 2 see half a rounding of it
    tol = 2e-7 if trainable else 1e-10
    torch.testing.assert_close(found, torch.tensor([values], dtype=DOUBLE), rtol=0, atol=tol)


@pytest.mark.parametrize(("p", "value"), [(6, 0.3657261082), (5, 0.3638438369)])
def test_envelope_times_first_function(p, value):
    r = torch.tensor(1.1, dtype=DOUBLE)
    product = BesselBasis(5.0)(r)[0] * PolynomialCutoff(5.0, p)(r)
    # half a unit of the tenth decimal, the last that is given
    assert product.item() == pytest.approx(value, abs=5e-11)


def test_bessel_functions_are_orthonormal_and_proportional_to_those_of_nequip():
    nodes, weights = (torch.from_numpy(x) for x in np.polynomial.legendre.leggauss(64))
    r = (nodes + 1) * 2.5
    values = BesselBasis(5.0)(r)
    gram = values.T @ (values * (2.5 * weights * r**2)[:, None])
    torch.testing.assert_close(gram, torch.eye(8, dtype=DOUBLE), **tolerance(DOUBLE, 64))
    r = torch.linspace(0.1, 6, 50, dtype=DOUBLE)
    n = torch.arange(1, 9, dtype=DOUBLE)
    nequip = n * torch.sinc(n * r[:, None] / 5)
    # the factor has eleven decimals: half a unit of the last, 5e-12, is 1.3e-11 of it
    torch.testing.assert_close(BesselBasis(5.0)(r), nequip * 0.39738353063, rtol=2e-11, atol=2e-11)


X = [0.0, 1e-300, 1e-12, 1e-6, 1e-3, 0.3, 0.4999999, 0.5, 0.7, 3.0, 25.0]


@pytest.mark.parametrize("x", X)
def test_sin_over_and_its_derivatives(x):
    nodes, weights = np.polynomial.legendre.leggauss(40)
    t, w = (nodes + 1) / 2, weights / 2
    powers = [np.cos(x * t), -t * np.sin(x * t), -(t**2) * np.cos(x * t), t**3 * np.sin(x * t)]
    function, at = sin_over, torch.tensor(x, dtype=DOUBLE)
    for values in powers:
        # the third derivative has terms of up to 6 / 0.5^3 = 48, in units of 7e-15
        assert function(at).item() == pytest.approx(w @ values, abs=2e-14)
        function = grad(function)


def test_float32_has_its_digits_in_forces_too():
    slope = grad(lambda r: BesselBasis(5.0)(r).sum())
    for r in (1e-6, 1e-3, 0.05, 0.1, 1.0, 4.9):
        single = slope(torch.tensor(r, dtype=torch.float32)).double()
        double = slope(torch.tensor(r, dtype=torch.float32).double())
        # frequencies up to 8 pi / 5, whose squares meet in the slope; a dozen operations on each
        scale = (8 * math.pi / 5) ** 2
        bound = tolerance(torch.float32, terms=128)["rtol"]
        assert abs(single - double) <= bound * scale


def test_what_is_fixed_stays_exact_and_out_of_the_state():
    basis = BesselBasis(5.0)
    assert basis.state_dict() == {}
    r = torch.rand(7, dtype=DOUBLE)
    assert torch.equal(basis.half().double()(r), BesselBasis(5.0)(r))


def test_gaussians_have_one_at_their_center_and_zero_far_away():
    r = torch.tensor(1.3, dtype=DOUBLE)
    deviation = 2 * 5 / 3
    want = [math.exp(-((1.3 - 5 * k / 3) ** 2) / (2 * deviation**2)) for k in range(4)]
    found = GaussianBasis(5.0, 4, width=2.0)(r)
    torch.testing.assert_close(found, torch.tensor(want, dtype=DOUBLE), **tolerance(DOUBLE))
    values = GaussianBasis(6.0, 9)(torch.linspace(0, 6, 9, dtype=DOUBLE))
    torch.testing.assert_close(values.diagonal(), torch.ones(9, dtype=DOUBLE))
    assert (values <= 1).all()
    r = torch.tensor([1e12], requires_grad=True)
    values = GaussianBasis(5.0)(r)
    (slope,) = torch.autograd.grad(values.sum(), r)
    assert values.eq(0).all()
    assert slope.eq(0).all()


@pytest.mark.parametrize("p", [2, 3, 5, 6, 9])
def test_the_polynomial_of_the_literature(p):
    x = torch.linspace(0, 1, 101, dtype=DOUBLE)
    found = PolynomialCutoff(1.0, p)(x)
    want = 1 - (p + 1) * (p + 2) / 2 * x**p + p * (p + 2) * x ** (p + 1)
    want = want - p * (p + 1) / 2 * x ** (p + 2)
    # terms of up to p (p + 2) cancel in the formula
    torch.testing.assert_close(found, want, rtol=0, atol=4e-16 * (p + 2) ** 2)


@pytest.mark.parametrize(("p", "third"), [(5, -210.0), (6, -336.0)])
def test_two_derivatives_are_continuous_and_the_third_is_not(p, third):
    envelope = PolynomialCutoff(1.0, p)
    below, at = torch.tensor([1 - 2**-53, 1.0], dtype=DOUBLE)
    first, second = grad(envelope), grad(grad(envelope))
    for function in (envelope, first, second):
        # the third derivative times the step to the cutoff, of which the second has the most
        assert abs(function(below).item()) <= 1.01 * abs(third) * 2**-53
        assert function(at).item() == 0
    assert grad(second)(below).item() == pytest.approx(third, rel=tolerance(DOUBLE, p)["rtol"])


def test_cutoffs_fall_without_cancellation_to_exact_zeros():
    r = torch.tensor([1.0, 1.1, 100.0, 1e30], requires_grad=True)
    values = PolynomialCutoff(1.0)(r)
    (slope,) = torch.autograd.grad(values.sum(), r, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), r)
    assert torch.stack([values, slope, curvature]).eq(0).all()
    x = 1 - torch.logspace(-1, -3, 200, dtype=DOUBLE)
    single = PolynomialCutoff(1.0)(x.float())
    double = PolynomialCutoff(1.0)(x.float().double())
    # three factors 1 - x, which is exact, and a dozen roundings
    torch.testing.assert_close(single.double(), double, rtol=2e-6, atol=0)
    assert (single[1:] < single[:-1]).all()


DERIVED = {
    "bessel": (lambda: BesselBasis(2.0, 3), []),
    "bessel, trainable": (lambda: BesselBasis(2.0, 3, trainable=True), ["frequencies"]),
    "gaussian": (lambda: GaussianBasis(2.0, 3), []),
    "gaussian, trainable": (lambda: GaussianBasis(2.0, 3, trainable=True), ["centers"]),
    "cutoff": (lambda: PolynomialCutoff(2.0), []),
}


@pytest.mark.parametrize("name", DERIVED)
def test_functions_are_differentiable_twice_at_zero_and_beyond_the_cutoff(name):
    make, parameters = DERIVED[name]
    function = make().double()
    r = torch.tensor([0.0, 1e-9, 0.7, 1.9, 2.0, 3.0], dtype=DOUBLE)
    r = (r[r != 2.0] if name == "cutoff" else r).requires_grad_()  # of which the third jumps there
    assert torch.autograd.gradcheck(function, (r,))
    assert torch.autograd.gradgradcheck(function, (r,))
    assert [name for name, _ in function.named_parameters()] == parameters


@pytest.mark.parametrize("out_act", [False, True])
def test_variance_goes_in_and_out_as_declared(out_act):
    mlp = RadialMLP([64, 128, 32], silu, variance_in=4.0, variance_out=9.0, out_act=out_act)
    mlp.double().load_state_dict(
        {name: random(*w.shape, seed=1) for name, w in mlp.state_dict().items()}
    )
    z = mlp(2 * random(4000, 64))
    # Weights are drawn once: from draw to draw this has a deviation of 0.06 of itself, and of 0.13
    # behind an activation.
    assert z.square().mean().item() == pytest.approx(9, rel=0.15)


def test_networks_without_activation_are_linear_and_may_be_empty():
    mlp = RadialMLP([3, 4, 2]).double()
    x, y = random(5, 3), random(5, 3, seed=1)
    torch.testing.assert_close(mlp(x + y), mlp(x) + mlp(y), **tolerance(x.dtype, 64))
    assert RadialMLP([3, 4, 2], silu)(torch.zeros(0, 3)).shape == (0, 2)
    assert RadialMLP([0, 4, 2], silu)(torch.zeros(5, 0)).shape == (5, 2)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (BesselBasis, (0.0,), "cutoff must be positive and finite, got 0.0"),
        (BesselBasis, (math.nan,), "cutoff must be positive and finite, got nan"),
        (BesselBasis, (5.0, 0), "num_basis must be at least 1, got 0"),
        (GaussianBasis, (-1.0,), "cutoff must be positive and finite, got -1.0"),
        (GaussianBasis, (1.0, 1), "num_basis must be at least 2, got 1"),
        (partial(GaussianBasis, width=0.0), (1.0,), "width must be positive and finite, got 0.0"),
        (PolynomialCutoff, (0.0,), "cutoff must be positive and finite, got 0.0"),
        (PolynomialCutoff, (1.0, 1), "p must be at least 2, got 1"),
        (RadialMLP, ([3],), "two or more numbers"),
        (RadialMLP, ([3, -1],), "two or more numbers"),
        (partial(RadialMLP, variance_in=0.0), ([3, 2],), "variances must be positive"),
        (RadialMLP([3, 2]), (torch.zeros(5, 4),), r"x must be \(\.\.\., 3\), got \(5, 4\)"),
    ],
)
def test_bad_arguments_raise(kind, arguments, message):
    refused(message, kind, *arguments)


def test_arguments_of_another_type_raise():
    refused("cutoff must be a number, got '5'", BesselBasis, "5", error=TypeError)
    refused("num_basis must be an integer, got 2.5", BesselBasis, 5.0, 2.5, error=TypeError)
    refused("p must be an integer, got 6.0", PolynomialCutoff, 1.0, 6.0, error=TypeError)
    message = r"distances must be floating, got torch\.int64"
    refused(message, BesselBasis(5.0), torch.arange(3), error=TypeError)
