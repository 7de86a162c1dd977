"""Half precision in every mode: what is not computed in it must not be lost on the way either."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from equigeo._core.tensors import HALF, computed_in, in_float32, rounded_once
from tests.ops.op import Op
from tests.ops.op_table import OPS
from tests.ops.problems import SMALL
from tests.tier import FULL

# One op of each kind; of channelwise products, which read bfloat16 themselves, one as well.
KINDS = {
    "gather_sum",
    "segment_attention",
    "grid_product",
    "channelwise_product",
    "copywise_product",
    "radial_conv",
    "spline_conv",
    "symmetric_contraction",
    "spherical_harmonics",
    "principal_axes",
    "symmetric_eigen",
}
COMPILED = {"gather_sum", "channelwise_product"}  # in the fast tier
EACH = [next(op for op in OPS if op.name == kind) for kind in sorted(KINDS)]
each_kind = pytest.mark.parametrize("op", EACH, ids=str)
every_half = pytest.mark.parametrize("dtype", sorted(HALF, key=str), ids=str)


class Call(nn.Module):
    """An op with everything but its features fixed."""

    def __init__(self, op: Op, dtype: torch.dtype) -> None:
        super().__init__()
        self.op, self.rest = op, op.tables(op.rest(SMALL.graph()), dtype)

    def forward(self, *features: Tensor) -> tuple[Tensor, ...]:
        results = self.op.call(*features, *self.rest)
        return results if isinstance(results, tuple) else (results,)


def problem(op: Op, dtype: torch.dtype) -> tuple[Call, tuple[Tensor, ...]]:
    return Call(op, dtype), tuple(op.features(SMALL, dtype))


def with_gradients(function: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    live = [x.detach().requires_grad_() for x in inputs]
    results = function(*live)
    total = sum(r.float().square().sum() for r in results)
    return (*(r.detach() for r in results), *torch.autograd.grad(total, live))


def test_half_precision_is_computed_in_single_and_others_in_themselves():
    computed = {dtype: computed_in(dtype) for dtype in (torch.float32, torch.float64, *HALF)}
    assert computed.pop(torch.float64) == torch.float64
    assert {*computed.values()} == {torch.float32}


@every_half
@pytest.mark.parametrize("call", [in_float32, rounded_once])
def test_results_that_are_no_features_are_left_alone(call, dtype):
    def found(x: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        assert (x.dtype, count) == (torch.float32, 3)
        return x, x > 0, x.double()

    results = call(found, [torch.ones(2, dtype=dtype), 3])
    assert [x.dtype for x in results] == [dtype, torch.bool, torch.float64]


@every_half
@pytest.mark.parametrize("op", [op for op in EACH if FULL or op.name in COMPILED], ids=str)
def test_half_precision_compiles_to_the_same_bits(op, dtype):
    call, inputs = problem(op, dtype)
    torch._dynamo.reset()
    program = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert_close(with_gradients(program, inputs), with_gradients(call, inputs), rtol=0, atol=0)


@every_half
@each_kind
def test_half_precision_exports_as_single_precision_between_casts(op, dtype):
    call, inputs = problem(op, dtype)
    program = torch.export.export(call, inputs)
    assert_close(program.module()(*inputs), call(*inputs), rtol=0, atol=0)
    (node,) = (n for n in program.graph.nodes if op.name in str(n.target))
    native = op.name.startswith("channelwise") and dtype == torch.bfloat16
    assert node.args[0].meta["val"].dtype == (dtype if native else torch.float32)


@every_half
@each_kind
def test_batches_and_tangents_of_half_precision_are_those_of_single_precision(op, dtype):
    call, inputs = problem(op, dtype)
    batch = [torch.stack([x, -x]) for x in inputs]
    found = torch.func.vmap(call)(*batch)
    for one, parts in zip(
        found, zip(*(call(*b) for b in zip(*batch, strict=True)), strict=True), strict=True
    ):
        assert_close(one, torch.stack(parts), rtol=0, atol=0)
    wide = Call(op, torch.float32)
    directions = [x.flip(0) for x in inputs]
    _, tangents = torch.func.jvp(call, inputs, tuple(directions))
    _, exact = torch.func.jvp(
        wide, *(tuple(x.float() for x in given) for given in (inputs, directions))
    )
    for one, other in zip(tangents, exact, strict=True):
        assert one.dtype == dtype
        # Forward rules add up parts, each rounded where the op itself reads bfloat16.
        scale = float(other.abs().max()) or 1.0
        assert_close(one.float() / scale, other / scale, rtol=0, atol=4 * torch.finfo(dtype).eps)
