"""Bessel functions: values of the specification, orthonormality, derivatives everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.func import grad

from equigeo.nn import BesselBasis, PolynomialCutoff
from equigeo.nn.radial.bessel_basis import sin_over
from equigeo.testing import tolerance

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


def test_orthonormal_with_weight_r_squared():
    nodes, weights = (torch.from_numpy(x) for x in np.polynomial.legendre.leggauss(64))
    r = (nodes + 1) * 2.5
    values = BesselBasis(5.0)(r)
    gram = values.T @ (values * (2.5 * weights * r**2)[:, None])
    torch.testing.assert_close(gram, torch.eye(8, dtype=DOUBLE), **tolerance(DOUBLE, 64))


def test_functions_of_nequip_up_to_a_factor():
    r = torch.linspace(0.1, 6, 50, dtype=DOUBLE)
    n = torch.arange(1, 9, dtype=DOUBLE)
    nequip = n * torch.sinc(n * r[:, None] / 5)
    # the factor has eleven decimals: half a unit of the last, 5e-12, is 1.3e-11 of it
    torch.testing.assert_close(BesselBasis(5.0)(r), nequip * 0.39738353063, rtol=2e-11, atol=2e-11)


X = [0.0, 1e-300, 1e-12, 1e-6, 1e-3, 0.3, 0.4999999, 0.5, 0.7, 3.0, 25.0]


@pytest.mark.parametrize("x", X)
def test_sin_over_and_its_derivatives(x):
    """Against Legendre quadrature of the integrals of cos(x t) over t in (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    t, w = (nodes + 1) / 2, weights / 2
    powers = [np.cos(x * t), -t * np.sin(x * t), -(t**2) * np.cos(x * t), t**3 * np.sin(x * t)]
    function, at = sin_over, torch.tensor(x, dtype=DOUBLE)
    for values in powers:
        # the third derivative has terms of up to 6 / 0.5^3 = 48, in units of 7e-15
        assert function(at).item() == pytest.approx(w @ values, abs=2e-14)
        function = grad(function)


def test_negative_control_of_the_derivatives():
    """PyTorch's own function has no second derivative at zero."""
    wrong = grad(grad(lambda x: torch.sinc(x / math.pi)))(torch.zeros((), dtype=DOUBLE))
    assert not abs(wrong.item() + 1 / 3) < 0.1


@pytest.mark.parametrize("trainable", [False, True])
def test_differentiable_twice_at_zero_and_beyond_the_cutoff(trainable):
    basis = BesselBasis(2.0, 3, trainable=trainable).double()
    r = torch.tensor([0.0, 1e-9, 0.7, 2.0, 3.0], dtype=DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(basis, (r,))
    assert torch.autograd.gradgradcheck(basis, (r,))
    assert [name for name, _ in basis.named_parameters()] == ["frequencies"] * trainable


def test_float32_has_its_digits_in_forces_too():
    """A derivative of order one, of which cancellation near zero would leave nothing."""
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


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0.0,), ValueError, "cutoff must be positive and finite, got 0.0"),
        ((math.nan,), ValueError, "cutoff must be positive and finite, got nan"),
        (("5",), TypeError, "cutoff must be a number, got '5'"),
        ((5.0, 0), ValueError, "num_basis must be at least 1, got 0"),
        ((5.0, 2.5), TypeError, "num_basis must be an integer, got 2.5"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        BesselBasis(*arguments)


def test_integers_are_no_distances():
    with pytest.raises(TypeError, match=r"distances must be floating, got torch\.int64"):
        BesselBasis(5.0)(torch.arange(3))
