"""The matrix exponential: single matrices, and the translations of affine maps."""

from __future__ import annotations

import pytest
import scipy.linalg
import torch

from equigeo.groups import (
    GL,
    SL,
    SO,
    Affine,
    GLPlus,
    Group,
    O,
    Scaling,
    Similarity,
    matrix_exp,
)
from equigeo.testing import tolerance

F64 = tolerance(torch.float64, terms=16, condition=20)

LINEAR = [kind(n) for kind in (O, SO, SL, GL, GLPlus, Scaling, Similarity) for n in (2, 3)]

GROUPS: list[Group] = [*LINEAR, *map(Affine, LINEAR)]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(params=GROUPS, ids=str)
def group(request: pytest.FixtureRequest) -> Group:
    return request.param


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
