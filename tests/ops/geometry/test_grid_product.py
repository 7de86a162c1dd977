import pytest
import torch
from torch.testing import assert_close

from equigeo.ops import grid_product
from equigeo.ops.geometry.grid_product import SeparableTransform
from equigeo.testing import tolerance

pytestmark = pytest.mark.kernels


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(
        shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape))
    )


@pytest.mark.parametrize("summands", [1, 2])
@pytest.mark.parametrize("lmax", [0, 1, 3])
def test_is_the_trilinear_form_of_its_tables(lmax, summands):
    d, order = (lmax + 1) ** 2, [lmax + m for l in range(lmax + 1) for m in range(-l, l + 1)]
    tables = [randn(summands, size, n) for _ in "xyz" for size, n in ((d, 3), (2 * lmax + 1, 5))]
    full = [
        torch.einsum("sab,sac->sabc", legendre, trig[:, order])
        for legendre, trig in zip(tables[::2], tables[1::2], strict=True)
    ]
    x, y = randn(4, d), randn(4, d)
    want = torch.einsum("na,nb,sapq,sbpq,scpq->nc", x, y, *full)
    assert_close(grid_product(x, y, *tables), want)


@pytest.mark.parametrize(("of_legendre", "of_trig"), [(1, 1), (2, 2)])
@pytest.mark.parametrize("lmax", [0, 2, 5])
def test_analyze_is_the_transpose_of_evaluate(lmax, of_legendre, of_trig):
    pair = randn(of_legendre, (lmax + 1) ** 2, 4), randn(of_trig, 2 * lmax + 1, 7)
    separable = SeparableTransform(*pair)
    x, values = randn(3, (lmax + 1) ** 2), randn(of_legendre, 3, 4, 7)
    left, right = (separable.evaluate(x) * values).sum(), (x * separable.analyze(values)).sum()
    assert_close(left, right, **tolerance(torch.float64, terms=1000, condition=10))
