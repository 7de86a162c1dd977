"""Random matrices against the moments of the Haar measure, and exponentials of single matrices."""

import math

import pytest
import scipy.linalg
import torch

from equigeo.groups import GL, Affine, O, matrix_exp
from equigeo.testing import tolerance
from tests.draws import generator


def test_haar_measure_is_invariant_under_translation():
    g = O(2).haar(100_000, generator=generator())
    assert float(g.mean(0).abs().max()) < 0.02
    error = 5 * 0.5 / math.sqrt(100_000)  # five standard errors
    assert float((torch.linalg.det(g) > 0).double().mean()) == pytest.approx(0.5, abs=error)


F64 = tolerance(torch.float64, terms=16, condition=20)


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
