from __future__ import annotations

import math

import pytest
import torch

from equigeo.nn import GaussianBasis
from equigeo.testing import tolerance

DOUBLE = torch.float64


def test_values():
    r = torch.tensor(1.3, dtype=DOUBLE)
    deviation = 2 * 5 / 3
    want = [math.exp(-((1.3 - 5 * k / 3) ** 2) / (2 * deviation**2)) for k in range(4)]
    found = GaussianBasis(5.0, 4, width=2.0)(r)
    torch.testing.assert_close(found, torch.tensor(want, dtype=DOUBLE), **tolerance(DOUBLE))


def test_each_is_one_at_its_center():
    centers = torch.linspace(0, 6, 9, dtype=DOUBLE)
    values = GaussianBasis(6.0, 9)(centers)
    torch.testing.assert_close(values.diagonal(), torch.ones(9, dtype=DOUBLE))
    assert (values <= 1).all()


@pytest.mark.parametrize("trainable", [False, True])
def test_differentiable_twice_at_zero_and_beyond_the_cutoff(trainable):
    basis = GaussianBasis(2.0, 3, trainable=trainable).double()
    r = torch.tensor([0.0, 0.7, 2.0, 3.0], dtype=DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(basis, (r,))
    assert torch.autograd.gradgradcheck(basis, (r,))
    assert [name for name, _ in basis.named_parameters()] == ["centers"] * trainable


def test_far_away_all_is_zero_with_zero_gradients():
    r = torch.tensor([1e12], requires_grad=True)
    values = GaussianBasis(5.0)(r)
    (slope,) = torch.autograd.grad(values.sum(), r)
    assert values.eq(0).all()
    assert slope.eq(0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(cutoff=-1.0), "cutoff must be positive and finite, got -1.0"),
        (dict(cutoff=1.0, num_basis=1), "num_basis must be at least 2, got 1"),
        (dict(cutoff=1.0, width=0.0), "width must be positive and finite, got 0.0"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        GaussianBasis(**options)
