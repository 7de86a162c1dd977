"""Second gradients of convolutions by orders, chunk by chunk."""

from dataclasses import replace

import pytest
import torch
from torch.autograd import forward_ad
from torch.testing import assert_close

from bench.op_calls import Calls
from equigeo.ops.edges import so2_conv
from equigeo.testing import tolerance
from tests.ops.graph_rows import so2_rows
from tests.ops.op import Op
from tests.ops.problems import SMALL
from tests.ops.test_ops import arguments, derivatives, order_one

BACKWARD = [op for op in so2_rows() if op.name == "so2_conv_backward"]


@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("op", BACKWARD, ids=str)
def test_two_orders_do_not_depend_on_the_size_of_chunks(op, most, monkeypatch):
    features, rest = arguments(op, SMALL, torch.float64)
    whole = derivatives(op.call, features, rest)
    numbers = so2_conv.NUMBERS * 8 * (features[0].shape[1] + features[1].shape[1])
    monkeypatch.setattr(so2_conv, "CHUNK", most * numbers)
    for got, want in zip(derivatives(op.call, features, rest), whole, strict=True):
        for a, b in zip(got, want, strict=True):
            scale = order_one(b)
            assert_close(a / scale, b / scale, **tolerance(torch.float64, op.terms))


@pytest.mark.parametrize("name", ["x", "vectors"])
@pytest.mark.parametrize("recorded", [True, False])
def test_second_gradients_have_the_tangents_of_all_arguments(name, recorded):
    """Also of those that no gradient is asked of."""
    op = next(op for op in so2_rows() if op.name == "so2_conv")
    features, rest = arguments(op, SMALL, torch.float64)
    at = ("x", "vectors").index(name)
    direction = torch.ones_like(features[at]).cumsum(0).sin()

    def second(moved: torch.Tensor) -> torch.Tensor:
        given = [x.detach() for x in features]
        given[at], given[2] = moved, given[2].clone().requires_grad_()
        by = given[at] if recorded else given[2]
        (first,) = torch.autograd.grad(
            op.call(*given, *rest)[0].pow(3).sum(), by, create_graph=True
        )
        return torch.autograd.grad(first.square().sum(), by)[0]

    here = features[at].detach()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(here.clone().requires_grad_(recorded), direction)
        tangent = forward_ad.unpack_dual(second(dual)).tangent
    step = 1e-5
    up, down = (second((here + s * direction).requires_grad_(recorded)) for s in (step, -step))
    want = (up - down) / (2 * step)
    assert tangent is not None
    assert float((tangent - want).norm()) < 1e-6 * float(want.norm())


def memory(op: Op, edges: int) -> tuple[int, int]:
    """Bytes of the arguments, and those that second gradients need at most beyond these."""
    features, rest = arguments(op, replace(SMALL, edges=edges), torch.float32)
    inputs = [x.requires_grad_() for x in features]
    results = [x for x in op.call(*inputs, *rest) if x.requires_grad]
    directions = [torch.ones_like(x) for x in results]
    with Calls() as calls:
        torch.autograd.grad(results, inputs, directions, materialize_grads=True)
    return sum(x.nbytes for x in features), calls.most


def test_memory_of_second_gradients_grows_by_the_rows_of_edges_alone(monkeypatch):
    op = BACKWARD[-1]

    def growth(chunk: int) -> tuple[float, float]:
        monkeypatch.setattr(so2_conv, "CHUNK", chunk)
        few, many = memory(op, 1000), memory(op, 3000)
        return (many[0] - few[0]) / 2000, (many[1] - few[1]) / 2000

    of_edges, needed = growth(250_000)
    # Gradients of chunks, these one after another, and in the order of the edges.
    assert needed <= 3 * of_edges
    assert growth(2**31)[1] > 10 * needed  # without chunks
