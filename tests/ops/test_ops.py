from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.testing import tolerance
from tests.ops.op_table import OPS, Op
from tests.ops.problems import PROBLEMS, SEVERAL_CHUNKS, SMALL, Problem

DTYPES = [torch.float32, torch.float64]
every_op = pytest.mark.parametrize("op", OPS, ids=str)
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=str)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def as_tuple(result: Any) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def arguments(op: Op, problem: Problem, dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    rest = op.rest(problem.graph())
    return op.features(problem, dtype), [x.to(dtype) if x.is_floating_point() else x for x in rest]


def double(tensors: list[Tensor]) -> list[Tensor]:
    return [x.double() if x.is_floating_point() else x for x in tensors]


def same_bits(op: Op, dtype: torch.dtype = torch.float64) -> dict[str, float]:
    return tolerance(dtype, terms=1000) if op.blas else {"rtol": 0, "atol": 0}


def derivatives(
    function: Callable[..., Any], features: list[Tensor], rest: list[Tensor], orders: int = 2
) -> list[tuple[Tensor, ...]]:
    """Results, their first derivatives along fixed directions, the second ones of those."""
    inputs = tuple(x.detach().requires_grad_() for x in features)
    found = [as_tuple(function(*inputs, *rest))]
    for _ in range(orders):
        found.append(contract_and_differentiate(found[-1], inputs))
    return found


def contract_and_differentiate(
    results: tuple[Tensor, ...], inputs: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    directions = [torch.linspace(-1, 1, r.numel(), dtype=torch.float64) for r in results]
    total = sum((r.flatten() * d.to(r)).sum() for r, d in zip(results, directions, strict=True))
    if not total.requires_grad:  # a second derivative that is zero
        return tuple(torch.zeros_like(x) for x in inputs)
    return torch.autograd.grad(total, inputs, create_graph=True, materialize_grads=True)


def test_every_declared_op_has_a_row_in_the_table():
    assert {op.name for op in OPS} == set(SCHEMAS)


@every_dtype
@every_problem
@every_op
def test_op_and_two_orders_of_gradients_agree_with_the_reference(op, problem, dtype):
    features, rest = arguments(op, problem, dtype)
    got = derivatives(op.call, features, rest)
    want = derivatives(op.reference, double(features), double(rest))
    for mine, theirs in zip(got, want, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            # scale to order one, as the tolerance supposes
            scale = max(1.0, float(b.detach().abs().max())) if b.numel() else 1.0
            assert a.dtype == dtype
            bound = tolerance(dtype, max(problem.terms, op.terms))
            assert_close(a.double() / scale, b / scale, **bound)


@every_op
def test_gradients_agree_with_finite_differences(op):
    features, rest = arguments(op, SMALL, torch.float64)
    inputs = [x.requires_grad_() for x in features]

    def function(*x: Tensor) -> Any:
        return op.call(*x, *rest)

    # random directions where single entries are too many
    fast = sum(x.numel() for x in inputs) > 300
    assert torch.autograd.gradcheck(function, inputs, fast_mode=fast)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=fast)


@every_dtype
@pytest.mark.parametrize("problem", [SMALL, *PROBLEMS[-5:]], ids=str)
@every_op
def test_op_is_registered_as_pytorch_demands(op, problem, dtype):
    features, rest = arguments(op, problem, dtype)
    if op.missing is not None:
        features.insert(op.missing, None)
    inputs = tuple(x if x is None else x.requires_grad_() for x in features)
    torch.library.opcheck(op.overload, (*inputs, *rest, *op.constants))


@every_op
def test_strided_and_expanded_arguments_give_the_values_of_contiguous_ones(op):
    features, rest = arguments(op, SMALL, torch.float64)
    strided = [x.mT.contiguous().mT for x in features]
    strided_rest = [torch.stack([x, x], dim=1)[:, 0] for x in rest]
    want = derivatives(op.call, features, rest)
    got = derivatives(op.call, strided, strided_rest)
    assert_close(got, want, **same_bits(op))
    constant = [x.flatten()[0].expand_as(x) for x in features]
    want = derivatives(op.call, [x.contiguous() for x in constant], rest)
    assert_close(derivatives(op.call, constant, rest), want, **same_bits(op))


@every_op
def test_expanded_gradients_are_taken_as_they_arrive(op):
    features, rest = arguments(op, SMALL, torch.float64)
    inputs = [x.requires_grad_() for x in features]
    results = as_tuple(op.call(*inputs, *rest))
    ones = [torch.ones((), dtype=r.dtype).expand_as(r) for r in results]
    got = torch.autograd.grad(results, inputs, ones, retain_graph=True)
    want = torch.autograd.grad(results, inputs, [g.contiguous() for g in ones])
    assert_close(got, want, **same_bits(op))


@pytest.fixture
def restored_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("restored_threads")
@every_op
def test_bits_do_not_depend_on_the_number_of_threads(op):
    features, rest = arguments(op, SEVERAL_CHUNKS, torch.float32)
    runs = []
    for threads in (1, 2, 3, 3):
        torch.set_num_threads(threads)
        runs.append(derivatives(op.call, features, rest, orders=1))
    for run in runs[1:]:
        assert_close(run, runs[0], **same_bits(op, torch.float32))


class Call(nn.Module):
    def __init__(self, op: Op) -> None:
        super().__init__()
        self.op = op

    def forward(self, features: list[Tensor], rest: list[Tensor]) -> Any:
        return self.op.call(*features, *rest)


def loss_gradients(
    call: Callable[..., Any], features: list[Tensor], rest: list[Tensor]
) -> tuple[Tensor, ...]:
    inputs = [x.detach().requires_grad_() for x in features]
    results = as_tuple(call(inputs, rest))
    return torch.autograd.grad(sum(r.square().sum() for r in results), inputs)


def assert_compiles(op: Op, backend: str) -> None:
    torch._dynamo.reset()
    features, rest = arguments(op, SMALL, torch.float64)
    module = Call(op)
    compiled = torch.compile(module, fullgraph=True, backend=backend)
    want, got = (loss_gradients(call, features, rest) for call in (module, compiled))
    assert_close(got, want, **tolerance(torch.float64, SMALL.terms))


@every_op
def test_op_compiles_without_a_graph_break(op):
    assert_compiles(op, "aot_eager")


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # inductor's own
def test_op_compiles_to_code():
    assert_compiles(next(op for op in OPS if op.name == "segment_attention"), "inductor")


@every_op
def test_op_exports(op):
    features, rest = arguments(op, SMALL, torch.float64)
    program = torch.export.export(Call(op), (features, rest))
    assert f"equigeo.{op.name}" in str(program.graph)
    assert_close(program.module()(features, rest), op.call(*features, *rest), **same_bits(op))


CHANNELWISE = [op for op in OPS if op.name.startswith("channelwise")]


@pytest.mark.parametrize("problem", [SMALL, *PROBLEMS[1:8]], ids=str)
@pytest.mark.parametrize("op", CHANNELWISE, ids=str)
def test_bfloat16_is_storage_alone(op, problem):
    features, rest = arguments(op, problem, torch.float32)
    stored = [x.bfloat16() for x in features]
    got = as_tuple(op.call(*stored, *rest))
    exact = as_tuple(op.reference(*(x.float() for x in stored), *rest))
    for mine, theirs in zip(got, exact, strict=True):
        assert mine.dtype == torch.bfloat16
        # one rounding at the end, and rounding of float32 before it
        scale = max(1.0, float(theirs.abs().max())) if theirs.numel() else 1.0
        one = {"rtol": torch.finfo(torch.bfloat16).eps, "atol": 2e-5}
        assert_close(mine.float() / scale, theirs / scale, **one)


@pytest.mark.parametrize("op", CHANNELWISE, ids=str)
def test_bfloat16_has_gradients_of_its_own_dtype(op):
    features, rest = arguments(op, SMALL, torch.float32)
    inputs = [x.bfloat16().requires_grad_() for x in features]
    results = as_tuple(op.call(*inputs, *rest))
    gradients = torch.autograd.grad(sum(r.float().square().sum() for r in results), inputs)
    assert [g.dtype for g in gradients] == [torch.bfloat16] * len(inputs)
    assert all(g.isfinite().all() and g.any() for g in gradients)
