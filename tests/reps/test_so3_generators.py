"""Generators of rotations in the irreps."""

from __future__ import annotations

import pytest
import torch

from equigeo.reps import so3_generators
from equigeo.testing import tolerance

DEGREES = pytest.mark.parametrize("l", [0, 1, 2, 3, 4, 6, 8, 11])


@DEGREES
def test_generators_are_skew_and_close_like_rotations(l):
    g = so3_generators(l)
    assert torch.equal(g, -g.mT)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        torch.testing.assert_close(g[i] @ g[j] - g[j] @ g[i], g[k], rtol=0, atol=1e-13 * (l + 1))
    casimir = -l * (l + 1) * torch.eye(2 * l + 1, dtype=torch.float64)
    bound = tolerance(torch.float64, 2 * l + 1)
    torch.testing.assert_close((g @ g).sum(0), casimir, **bound)


def test_tables_belong_to_the_caller():
    so3_generators(2).zero_()
    assert so3_generators(2).abs().sum() > 0
