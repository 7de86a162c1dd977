"""Bad arguments, and what the op table does not say."""

import itertools
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import equigeo.ops.products.block_linear as linear
from equigeo.ops import (
    Polynomial,
    PolynomialTable,
    block_linear,
    relu_batch_norm,
    symmetric_contraction,
)
from equigeo.ops.geometry.relu_batch_norm import relu_batch_norm_reference
from equigeo.testing import tolerance
from tests.ops.small_calls import POLYNOMIALS, call
from tests.ops.table_rows import SMALL

pytestmark = pytest.mark.kernels


def operands(rows: int = 4, groups: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, SMALL.dim, generator=generator)
    return x, torch.randn(groups, SMALL.weights, generator=generator)


def run(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return block_linear(x, weight, SMALL.blocks, SMALL.factors, SMALL.dim_out, ir_mul=False)


@given(
    mul=st.integers(1, 70),
    mul_out=st.integers(1, 70),
    d=st.integers(1, 9),
    rows=st.integers(0, 40),
    ir_mul=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_one_block_is_a_matrix_product(mul, mul_out, d, rows, ir_mul):
    generator = torch.Generator().manual_seed(mul)
    x = torch.randn(rows, d, mul, generator=generator)
    weight = torch.randn(mul, mul_out, generator=generator)
    blocks = torch.tensor([[2, mul, 1, mul_out, d, 0]])
    flat = (x if ir_mul else x.mT).flatten(1)
    z = block_linear(
        torch.nn.functional.pad(flat, (2, 3)),
        weight.reshape(1, -1),
        blocks,
        torch.tensor([0.5]),
        1 + mul_out * d + 1,
        ir_mul=ir_mul,
    )
    expected = 0.5 * (x @ weight)
    expected = (expected if ir_mul else expected.mT).flatten(1)
    assert not z[:, 0].any()
    assert not z[:, -1].any()
    torch.testing.assert_close(z[:, 1:-1], expected, **tolerance(torch.float32, mul))


def test_groups_of_rows_have_their_own_weights():
    x, weight = operands(6, 3)
    alone = [run(x[2 * g : 2 * g + 2], weight[g : g + 1]) for g in range(3)]
    assert torch.equal(run(x, weight), torch.cat(alone))


@pytest.mark.parametrize("groups", [1, 4])
def test_a_gradient_that_is_not_asked_for_is_empty_and_the_other_the_same(groups):
    x, weight = operands(4, groups)
    differentiate = partial(call, "block_linear_backward", x=x, weight=weight)
    to_x, to_weight = differentiate()
    alone, none = differentiate(by_weight=False)
    assert torch.equal(alone, to_x)
    assert none.shape == (0, 0)
    none, alone = differentiate(by_x=False)
    assert torch.equal(alone, to_weight)
    assert none.shape == (0, 0)


def test_a_pass_by_x_computes_no_gradient_of_weights(monkeypatch):
    asked = []
    declared = linear.block_linear_backward

    def watched(*arguments):
        asked.append(arguments[-2:])
        return declared(*arguments)

    monkeypatch.setattr(linear, "block_linear_backward", watched)
    x, weight = (value.requires_grad_() for value in operands())
    for leaves in ([x], [weight], [x, weight]):
        torch.autograd.grad(run(x, weight).sum(), leaves)
    assert asked == [(True, False), (False, True), (True, True)]
    run(x, weight).sum().backward()
    assert asked[-1] == (True, True)


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


SOME, ONE, ZERO = torch.ones(3, 2), torch.ones(2), torch.zeros(2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "channels"), [(1, 1), (13, 37), (128, 16), (3000, 33)])
def test_statistics_are_those_of_the_reference(rows, channels, dtype):
    torch.manual_seed(rows)
    x, added = torch.randn(2, rows, channels, dtype=dtype)
    vectors = torch.randn(2, channels, dtype=dtype)
    found = relu_batch_norm(x, added, *vectors, 1e-5, True)
    doubled = (t.double() for t in (x, added, *vectors))
    expected = relu_batch_norm_reference(*doubled, 1e-5, True)
    for mine, theirs in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(mine.double(), theirs, **tolerance(dtype, terms=rows))


def test_statistics_are_those_of_the_rectified_sum_and_zero_without_rows():
    x, added = torch.tensor([[1.0], [-3.0]]), torch.tensor([[1.0], [1.0]])
    out, mean, variance = relu_batch_norm(x, added, ONE[:1], ZERO[:1], 1e-12, False)
    assert (mean.item(), variance.item()) == (1.0, 1.0)
    torch.testing.assert_close(out, torch.tensor([[1.0], [-1.0]]))
    out, mean, variance = relu_batch_norm(SOME[:0], None, ONE, ZERO, 1e-5, True)
    assert out.shape == (0, 2)
    assert not mean.any()
    assert not variance.any()
    x = SOME.clone()
    x[1, 0] = torch.nan  # and stays so
    out, _, _ = relu_batch_norm(x, None, ONE, ZERO, 1e-5, True)
    assert bool(out[:, 0].isnan().all())
    assert bool(out[:, 1].isfinite().all())
