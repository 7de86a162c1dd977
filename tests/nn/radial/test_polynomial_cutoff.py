"""The envelope: values of the specification, and how smoothly it ends."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad

from equigeo.nn import PolynomialCutoff
from equigeo.testing import tolerance

DOUBLE = torch.float64


@pytest.mark.parametrize(
    ("p", "x", "value"),
    [
        (5, 0.5, 0.7734375),
        (6, 0.5, 0.85546875),
        (5, 0.9, 0.0256915),
        (6, 0.9, 0.03809179),
    ],
)
def test_values_of_the_specification(p, x, value):
    found = PolynomialCutoff(3.0, p)(torch.tensor(3.0 * x, dtype=DOUBLE))
    assert found.item() == pytest.approx(value, rel=tolerance(DOUBLE)["rtol"])


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


def test_exact_zero_beyond_with_exact_zero_gradients():
    r = torch.tensor([1.0, 1.1, 100.0, 1e30], requires_grad=True)
    values = PolynomialCutoff(1.0)(r)
    (slope,) = torch.autograd.grad(values.sum(), r, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), r)
    assert torch.stack([values, slope, curvature]).eq(0).all()


def test_float32_falls_without_cancellation():
    """The sum of powers has an error of 1e-5 here, more than its value."""
    x = 1 - torch.logspace(-1, -3, 200, dtype=DOUBLE)
    single = PolynomialCutoff(1.0)(x.float())
    double = PolynomialCutoff(1.0)(x.float().double())
    # three factors 1 - x, which is exact, and a dozen roundings
    torch.testing.assert_close(single.double(), double, rtol=2e-6, atol=0)
    assert (single[1:] < single[:-1]).all()


def test_differentiable_twice_at_zero_and_beyond_the_cutoff():
    envelope = PolynomialCutoff(2.0)
    r = torch.tensor([0.0, 0.7, 1.9, 2.5], dtype=DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(envelope, (r,))
    assert torch.autograd.gradgradcheck(envelope, (r,))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0.0,), ValueError, "cutoff must be positive and finite, got 0.0"),
        ((1.0, 1), ValueError, "p must be at least 2, got 1"),
        ((1.0, 6.0), TypeError, "p must be an integer, got 6.0"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        PolynomialCutoff(*arguments)
