from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.testing import tolerance
from tests.ops.op_table import OF_KERNELS, OF_PYTORCH, OPS, Op
from tests.ops.problems import PROBLEMS, SEVERAL_CHUNKS, SMALL, Problem

DTYPES = [torch.float32, torch.float64]
every_op = pytest.mark.parametrize("op", OPS, ids=str)
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=str)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def as_tuple(result: Any) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def arguments(op: Op, problem: Problem, dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    return op.features(problem, dtype), op.tables(op.rest(problem.graph()), dtype)


def double(tensors: list[Tensor]) -> list[Tensor]:
    return [x.double() if x.is_floating_point() else x for x in tensors]


def same_bits(op: Op, dtype: torch.dtype = torch.float64) -> dict[str, float]:
    return tolerance(dtype, terms=1000) if op.blas else {"rtol": 0, "atol": 0}


def assert_same(got: Any, want: Any, op: Op, dtype: torch.dtype = torch.float64) -> None:
    """The same bits; of what PyTorch's matrix products make, the same numbers."""
    if isinstance(want, Tensor):
        scale = order_one(want) if op.blas else 1.0
        assert_close(got / scale, want / scale, **same_bits(op, dtype))
        return
    for mine, theirs in zip(got, want, strict=True):
        assert_same(mine, theirs, op, dtype)


def order_one(values: Tensor) -> float:
    """By what values are to be divided to be of order one, as tolerances suppose."""
    return max(1.0, float(values.detach().abs().max())) if values.numel() else 1.0


def derivatives(
    function: Callable[..., Any],
    features: list[Tensor],
    rest: list[Tensor],
    orders: int = 2,
    directions_in: torch.dtype = torch.float64,
) -> list[tuple[Tensor, ...]]:
    """Results, their first derivatives along fixed directions, the second ones of those."""
    inputs = tuple(x.detach().requires_grad_() for x in features)
    found = [as_tuple(function(*inputs, *rest))]
    for _ in range(orders):
        found.append(contract_and_differentiate(found[-1], inputs, directions_in))
    return found


def contract_and_differentiate(
    results: tuple[Tensor, ...], inputs: tuple[Tensor, ...], dtype: torch.dtype
) -> tuple[Tensor, ...]:
    directions = [torch.linspace(-1, 1, r.numel(), dtype=torch.float64).to(dtype) for r in results]
    total = sum((r.flatten() * d.to(r)).sum() for r, d in zip(results, directions, strict=True))
    if not total.requires_grad:  # a second derivative that is zero
        return tuple(torch.zeros_like(x) for x in inputs)
    return torch.autograd.grad(total, inputs, create_graph=True, materialize_grads=True)


def test_every_declared_op_has_a_row_in_the_table():
    assert {op.name for op in OF_PYTORCH} == set(SCHEMAS)
    assert {str(op) for op in OPS} >= OF_KERNELS


@every_dtype
@every_problem
@every_op
def test_op_and_two_orders_of_gradients_agree_with_the_reference(op, problem, dtype):
    features, rest = arguments(op, problem, dtype)
    got = derivatives(op.call, features, rest)
    want = derivatives(op.reference, double(features), double(rest))
    for mine, theirs in zip(got, want, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            scale = order_one(b)
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


@pytest.mark.parametrize(
    ("problem", "dtype"),
    [(SMALL, torch.float32), *((problem, torch.float64) for problem in [SMALL, *PROBLEMS[-5:]])],
    ids=str,
)
@pytest.mark.parametrize("op", OF_PYTORCH, ids=str)
def test_op_is_registered_as_pytorch_demands(op, problem, dtype):
    features, rest = arguments(op, problem, dtype)
    for position in op.missing:
        features.insert(position, None)
    inputs = tuple(x if x is None else x.requires_grad_() for x in features)
    torch.library.opcheck(op.overload, (*inputs, *rest, *op.constants))


def strided(x: Tensor) -> Tensor:
    """The same numbers, not contiguous."""
    return x.mT.contiguous().mT if x.ndim > 1 else torch.stack([x, x], dim=1)[:, 0]


@every_op
def test_strided_and_expanded_arguments_give_the_values_of_contiguous_ones(op):
    features, rest = arguments(op, SMALL, torch.float64)
    apart = [strided(x) for x in features]
    rest_apart = [torch.stack([x, x], dim=1)[:, 0] for x in rest]
    want = derivatives(op.call, features, rest)
    got = derivatives(op.call, apart, rest_apart)
    assert_same(got, want, op)
    constant = [x.flatten()[0].expand_as(x) if x.numel() else x for x in features]
    want = derivatives(op.call, [x.contiguous() for x in constant], rest)
    assert_same(derivatives(op.call, constant, rest), want, op)


@every_op
def test_expanded_gradients_are_taken_as_they_arrive(op):
    features, rest = arguments(op, SMALL, torch.float64)
    inputs = [x.requires_grad_() for x in features]
    results = [r for r in as_tuple(op.call(*inputs, *rest)) if r.requires_grad]
    ones = [torch.ones((), dtype=r.dtype).expand_as(r) for r in results]
    got = torch.autograd.grad(results, inputs, ones, retain_graph=True, materialize_grads=True)
    want = torch.autograd.grad(
        results, inputs, [g.contiguous() for g in ones], materialize_grads=True
    )
    assert_same(got, want, op)


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
        assert_same(run, runs[0], op, torch.float32)


def half_problems() -> Iterator[Any]:
    """Few where the op is that of single precision, many where it reads bfloat16 itself."""
    for op in OPS:
        own = op.name.startswith(("block", "channelwise"))
        for problem in (SMALL, *(PROBLEMS[1:8] if own else PROBLEMS[1:8:6])):
            yield pytest.param(op, problem, id=f"{op}-{problem}")


@pytest.mark.parametrize(("op", "problem"), list(half_problems()))
def test_half_precision_is_storage_alone(op, problem):
    for dtype in (torch.bfloat16, torch.float16):
        features, rest = arguments(op, problem, dtype)
        got = as_tuple(op.call(*features, *rest))
        exact = as_tuple(op.reference(*double(features), *double(rest)))
        for mine, theirs in zip(got, exact, strict=True):
            assert mine.dtype == dtype
            assert_close_to_stored(mine, theirs, max(problem.terms, op.terms), roundings=1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@every_op
def test_gradients_of_half_precision_are_rounded_once(op, dtype):
    features, rest = arguments(op, SMALL, dtype)
    got = derivatives(op.call, features, rest, directions_in=dtype)
    want = derivatives(op.reference, double(features), double(rest), directions_in=dtype)
    # Derivatives of gradients are sums, whose up to three parts an op that reads bfloat16 rounds.
    parts = 3 if dtype == torch.bfloat16 and op.name.startswith(("block", "channelwise")) else 1
    for roundings, mine, theirs in zip((1, parts, parts), got, want, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert a.dtype == dtype
            assert_close_to_stored(a, b, max(SMALL.terms, op.terms), roundings)


def assert_close_to_stored(found: Tensor, exact: Tensor, terms: int, roundings: int) -> None:
    """Roundings to storage, after those of float32."""
    scale = order_one(exact)
    stored = roundings * torch.finfo(found.dtype).eps
    # Parts of a sum may be as large as any result.
    lost = tolerance(torch.float32, terms)["atol"] + (stored if roundings > 1 else 0)
    assert_close(found.double() / scale, exact.double() / scale, rtol=stored, atol=lost)
