"""Tolerances come from precision and length."""

import math

import pytest
import torch

from equigeo.testing import tolerance
from tests.wrong_inputs import refused


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.complex64])
def test_tolerance_is_32_roundings_at_one_term(dtype):
    eps = torch.finfo(dtype).eps
    assert tolerance(dtype) == {"rtol": 32 * eps, "atol": 32 * eps}


def test_tolerance_grows_with_the_root_of_the_length_and_with_the_condition():
    base = tolerance(torch.float32)["rtol"]
    assert tolerance(torch.float32, 100)["atol"] == pytest.approx(10 * base)
    assert tolerance(torch.float32, 100, 7.0)["rtol"] == pytest.approx(70 * base)


def test_a_sum_of_many_terms_stays_within_its_tolerance():
    terms = 10_000
    x = torch.rand(terms, generator=torch.Generator().manual_seed(0))
    naive = x.cumsum(0)[-1] / terms
    exact = x.double().mean().float()
    torch.testing.assert_close(naive, exact, **tolerance(torch.float32, terms))


def test_bad_arguments_are_refused():
    refused(r"floating or complex, got torch\.int64", tolerance, torch.int64, error=TypeError)
    for bad in (0, -1, math.inf, math.nan):
        refused("terms must be finite and at least 1", tolerance, torch.float32, terms=bad)
        refused("condition must be finite and at least 1", tolerance, torch.float32, condition=bad)
