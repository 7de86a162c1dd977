"""The error of a law: its scale, and how it falls with samples."""

import math

import pytest
import torch
from torch import Tensor

from equigeo.groups import SO
from equigeo.reps import Irreps, Trivial
from equigeo.testing import equivariance_error

VECTOR = Irreps("1o")


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)


def test_error_is_relative_to_the_largest_expected_component():
    mirror = torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64))[None]
    x = torch.tensor([[4.0, 0.0, 0.0]], dtype=torch.float64)
    error = equivariance_error(lambda x: x + 1, VECTOR, VECTOR, inputs=[x], elements=mirror)
    assert error == pytest.approx(2 / 5)  # (-3, 1, 1) against (-5, 1, 1)


def test_error_of_a_sampled_layer_falls_with_the_number_of_samples():
    x = draw(1, 3)

    def pooled(samples: int) -> float:
        turns = SO(3).haar(samples, generator=torch.Generator().manual_seed(samples))

        def layer(x: Tensor) -> Tensor:
            return torch.relu((turns @ x[0])[:, :1]).mean(0)

        vector = VECTOR.restrict(SO(3))
        return equivariance_error(layer, vector, Trivial(SO(3), 1), inputs=[x])

    slope = math.log(pooled(64_000) / pooled(40)) / math.log(64_000 / 40)
    assert -0.8 < slope < -0.25
