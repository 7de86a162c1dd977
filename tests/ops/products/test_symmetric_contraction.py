import itertools

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.ops import Polynomial, PolynomialTable, symmetric_contraction
from equigeo.testing import tolerance
from tests.ops.small_calls import POLYNOMIALS

pytestmark = pytest.mark.kernels

X = torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]]).double()
WEIGHT = torch.tensor([[1.0, 10.0], [0.5, 2.0]]).double()[:, :, None]
INDEX = torch.tensor([1, 0])


def by_hand(x: Tensor, w: Tensor) -> list[float]:
    a, b, c = x.tolist()
    return [w[0].item() * (a * a + 3 * b * c) + w[1].item() * b, 0.0, w[1].item() * a * b * c]


def test_values_are_those_of_the_polynomials():
    want = [by_hand(x, WEIGHT[e, :, 0]) for x, e in zip(X, INDEX, strict=True)]
    got = symmetric_contraction(X, WEIGHT, INDEX, POLYNOMIALS)
    assert torch.equal(got, torch.tensor(want).double())  # small integers and halves: exact


def test_a_monomial_of_any_degree_is_split_into_products():
    for degree in range(1, 9):
        power = Polynomial(0, 0, {(0,) * degree: 1.0})
        table = PolynomialTable.from_polynomials([power], (1,), (1,))
        got = symmetric_contraction(torch.tensor([[1.5]]), torch.ones(1, 1, 1), INDEX[1:], table)
        assert got.item() == 1.5**degree  # of 13 bits at most


@pytest.mark.parametrize("channels", [1, 7, 15, 16, 17, 33, 64, 100])
def test_layouts_of_components_hold_the_same_numbers(channels):
    generator = torch.Generator().manual_seed(channels)
    dims = [(4,), (1, 3), (1, 1, 1, 1)]
    names = list(itertools.combinations_with_replacement(range(4), 3))
    coefficients = torch.randn(4, len(names), generator=generator).tolist()
    cubes = [
        Polynomial(m, 0, dict(zip(names, row, strict=True))) for m, row in enumerate(coefficients)
    ]
    x = torch.randn(5, channels, 4, generator=generator, dtype=torch.float64)
    grad = torch.randn(5, channels, 4, generator=generator, dtype=torch.float64)
    weight = torch.randn(2, 1, channels, generator=generator, dtype=torch.float64)
    index = torch.tensor([0, 1, 1, 0, 1])

    def laid_out(features: Tensor, dims: tuple[int, ...]) -> Tensor:
        return torch.cat([part.flatten(1) for part in features.split(dims, -1)], -1)

    def back(rows: Tensor, dims: tuple[int, ...]) -> Tensor:
        parts = rows.split([channels * dim for dim in dims], -1)
        shaped = zip(parts, dims, strict=True)
        return torch.cat([part.reshape(5, channels, dim) for part, dim in shaped], -1)

    found = []
    for ins, outs in itertools.product(dims, dims):
        table = PolynomialTable.from_polynomials(cubes, ins, outs)
        rows = laid_out(x, ins).requires_grad_()
        z = symmetric_contraction(rows, weight, index, table)
        (slope,) = torch.autograd.grad(z, rows, laid_out(grad, outs))
        found.append((back(z.detach(), outs), back(slope, ins)))
    for values in found[1:]:
        assert_close(values, found[0], rtol=0, atol=0)


def test_sets_that_no_row_takes_have_zero_gradients_and_long_runs_all_of_theirs():
    # 40 rows of one set are three runs, whose sums are added up; 16 and 17 are the edges.
    counts = [0, 40, 16, 17, 0, 1]
    index = torch.repeat_interleave(torch.arange(6), torch.tensor(counts)).flip(0)
    x = torch.randn(74, 15, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    weight = torch.ones(6, 2, 5, dtype=torch.float64, requires_grad=True)
    z = symmetric_contraction(x, weight, index, POLYNOMIALS)
    (got,) = torch.autograd.grad(z.sum(), weight)
    a, b, c = x.reshape(74, 5, 3).unbind(-1)
    each = torch.stack([a * a + 3 * b * c, b + a * b * c], 1)
    want = torch.zeros_like(weight).index_add(0, index, each)
    assert_close(got, want, **tolerance(torch.float64, terms=100))
    assert not got[[0, 4]].any()
