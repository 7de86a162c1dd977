import pytest
import torch
from torch.testing import assert_close

from equigeo.groups import O
from equigeo.ops import symmetric_eigen
from equigeo.testing import tolerance

pytestmark = pytest.mark.kernels

SPECTRA = {
    "generic": (3.0, 1.0, -2.0),
    "nearly twofold": (1.0, 1.0 - 1e-8, 0.1),
    "threefold": (1.0, 1.0, 1.0),
    "upper twofold": (1.0, 1.0, 0.2),
    "lower twofold": (1.0, 0.2, 0.2),
    "rank one": (1.0, 0.0, 0.0),
    "graded": (1.0, 1e-4, 1e-8),
    "zero": (0.0, 0.0, 0.0),
    "opposite": (1.0, 0.0, -1.0),
}


def matrices(spectrum, count=20_000):
    n = len(spectrum)
    g = O(n).haar(count, generator=torch.Generator().manual_seed(0))
    values = torch.tensor(spectrum, dtype=torch.float64)
    matrix = (g * values) @ g.mT
    return (matrix + matrix.mT) / 2, values


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("size", [2, 3])
def test_residuals_and_orthogonality_for_every_spectrum(name, size, dtype):
    matrix, want = matrices(SPECTRA[name][:size])
    matrix = matrix.to(dtype)
    values, vectors = symmetric_eigen(matrix)
    bound = {torch.float64: 3e-15, torch.float32: 1.5e-6}[dtype]
    norm = max(1.0, float(want.abs().max()))
    residual = matrix @ vectors - vectors * values[:, None]
    assert float(residual.abs().max()) <= bound * norm
    gram = vectors.mT @ vectors - torch.eye(size, dtype=dtype)
    assert float(gram.abs().max()) <= bound
    assert float((values - want.to(dtype)).abs().max()) <= bound * norm
    assert (values.diff(dim=-1) <= 0).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e150, 1e300])
def test_size_does_not_matter(scale):
    matrix, _ = matrices((3.0, 1.0, -2.0), 50)
    values, vectors = symmetric_eigen(matrix * scale)
    want, axes = symmetric_eigen(matrix)
    bound = tolerance(torch.float64, 3)
    assert_close(values / scale, want, **bound)
    assert_close(vectors, axes, **bound)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_matrices_that_are_not_finite_harm_no_other(size):
    matrix = torch.randn(10, size, size, generator=torch.Generator().manual_seed(0)).double()
    good = symmetric_eigen(matrix)
    for k, bad in ((3, torch.nan), (5, torch.inf)):
        matrix[k, 0, 0] = bad
    values, vectors = symmetric_eigen(matrix)
    fine = torch.tensor([k not in (3, 5) for k in range(10)])
    assert_close(values[fine], good[0][fine])
    assert_close(vectors[fine], good[1][fine])
    assert values[~fine].isnan().all()
    assert vectors[~fine].isnan().all()


def test_gradients_are_finite_where_eigenvalues_are_equal():
    matrix = torch.eye(3).double().expand(2, 3, 3).clone().requires_grad_()
    values, vectors = symmetric_eigen(matrix)
    (grad,) = torch.autograd.grad(values.sum() + vectors.sum(), matrix)
    assert grad.isfinite().all()


def test_other_sizes_go_to_pytorch():
    matrix = torch.randn(4, 5, 5, generator=torch.Generator().manual_seed(1)).double()
    values, vectors = symmetric_eigen(matrix)
    symmetric = (matrix + matrix.mT) / 2
    assert_close(vectors * values[:, None] @ vectors.mT, symmetric)
