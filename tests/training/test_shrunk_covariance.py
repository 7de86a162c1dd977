"""Shrinkage against its definition, and lengths against an inverse."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.testing import tolerance
from equigeo.training.shrunk_covariance import ShrunkCovariance


def _samples(samples, channels, seed):
    draw = torch.Generator().manual_seed(seed)
    spread = torch.logspace(0, -1, channels, dtype=torch.float64)
    return torch.randn(samples, channels, generator=draw, dtype=torch.float64) * spread


def _ledoit_wolf(x):
    """By the sums of the paper, sample by sample, with dense matrices."""
    samples, channels = x.shape
    found = x.mT @ x / samples
    target = torch.eye(channels, dtype=x.dtype) * found.trace() / channels
    distance = (found - target).square().sum()
    error = sum((torch.outer(row, row) - found).square().sum() for row in x) / samples**2
    share = min(float(error / distance), 1.0)
    return share * target + (1 - share) * found


@given(samples=st.integers(4, 30), channels=st.integers(2, 30), seed=st.integers(0, 99))
def test_lengths_are_those_of_the_dense_inverse(samples, channels, seed):
    """Of fewer samples than channels and of more."""
    x = _samples(samples, channels, seed)
    found = ShrunkCovariance.fit(x)
    y = _samples(5, channels, seed + 1)
    dense = torch.linalg.inv(_ledoit_wolf(x))
    expected = torch.einsum("ni,ij,nj->n", y, dense, y)
    bound = tolerance(torch.float64, 30, condition=100)  # which shrinkage leaves
    torch.testing.assert_close(found.squared_lengths(y), expected, **bound)
    assert len(found.axes) <= min(samples, channels)


def test_many_samples_are_hardly_shrunk():
    x = _samples(20_000, 3, 0)
    lengths = ShrunkCovariance.fit(x).squared_lengths(torch.eye(3, dtype=torch.float64))
    expected = 1 / torch.logspace(0, -1, 3, dtype=torch.float64).square()
    # five standard errors of variances of 20,000 samples, sqrt(2 / 20,000) = 0.01 of them
    torch.testing.assert_close(lengths, expected, rtol=0.05, atol=0.0)


@pytest.mark.parametrize("x", [torch.zeros(4, 3), torch.zeros(1, 1)])
def test_samples_in_one_place_have_no_covariance(x):
    assert ShrunkCovariance.fit(x.double()) is None
