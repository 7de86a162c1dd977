"""Exact symbols equal those of independent sums, published values and orthogonality."""

import itertools
import math

import pytest
import torch

from equigeo.tensor_products.signals.wigner_symbols import wigner_6j, wigner_9j
from equigeo.testing import tolerance
from tests.tensor_products.symbols import allowed, wigner_6j_symbol, wigner_9j_symbol

CLOSE = tolerance(torch.float64)["rtol"]  # of exact numbers, rounded


@pytest.mark.parametrize("t", range(5))
def test_exact_6j_symbols(t):
    for triple in itertools.product(range(2 * t + 2), repeat=3):
        got = wigner_6j(*triple, t, t, t)
        assert got == pytest.approx(wigner_6j_symbol(*triple, t, t, t), rel=CLOSE, abs=0.0)
        assert got == wigner_6j(triple[1], triple[2], triple[0], t, t, t)


def test_6j_symbols_of_large_degrees_are_orthogonal():
    size = 60
    row = [wigner_6j(size, size, x, size, size, 7) for x in range(2 * size + 1)]
    total = math.fsum((2 * x + 1) * value**2 for x, value in enumerate(row))
    assert 15 * total == pytest.approx(1, rel=CLOSE)


def test_exact_9j_symbols():
    generator = torch.Generator().manual_seed(0)
    nonzero = 0
    for numbers in torch.randint(4, (1000, 3, 3), generator=generator).tolist():
        rows = tuple(map(tuple, numbers))
        if all(allowed(*triad) for triad in (*rows, *zip(*rows, strict=True))):
            # sums of products below one half, in units of 5.6e-17
            assert wigner_9j(*rows) == pytest.approx(wigner_9j_symbol(*rows), abs=1e-15)
            nonzero += wigner_9j(*rows) != 0
        else:
            assert wigner_9j(*rows) == 0
    assert nonzero > 20
