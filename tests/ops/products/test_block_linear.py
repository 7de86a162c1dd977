import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import equigeo.ops.products.block_linear as linear
from equigeo.ops import block_linear
from equigeo.ops.products.block_linear import block_linear_backward
from equigeo.testing import tolerance
from tests.ops.table_rows import SMALL

pytestmark = pytest.mark.kernels


def operands(rows: int = 4, groups: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, SMALL.dim, generator=generator)
    return x, torch.randn(groups, SMALL.weights, generator=generator)


def run(x: torch.Tensor, weight: torch.Tensor, blocks: torch.Tensor = SMALL.blocks) -> torch.Tensor:
    return block_linear(x, weight, blocks, SMALL.factors, SMALL.dim_out, ir_mul=False)


def differentiate(
    x: torch.Tensor, weight: torch.Tensor, blocks: torch.Tensor = SMALL.blocks, **by: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    grad, factors = torch.ones(len(x), SMALL.dim_out), SMALL.factors.float()
    asked = {"by_x": True, "by_weight": True} | by
    slopes = block_linear_backward(grad, x, weight, blocks, factors, False, *asked.values())
    return slopes


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
    to_x, to_weight = differentiate(x, weight)
    alone, none = differentiate(x, weight, by_weight=False)
    assert torch.equal(alone, to_x)
    assert none.shape == (0, 0)
    none, alone = differentiate(x, weight, by_x=False)
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
