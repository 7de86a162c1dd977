import ctypes
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.ops import kernels_info
from equigeo.ops.runtime.declare import SCHEMAS, reads_bfloat16
from equigeo.testing import tolerance
from tests.ops.op_table import OF_PYTORCH, OPS, Op
from tests.ops.problems import PROBLEMS, SEVERAL_CHUNKS, SMALL, Problem
from tests.tier import FULL, tier

DTYPES = [torch.float32, torch.float64]
HALF = tier([torch.bfloat16], [torch.bfloat16, torch.float16])
DECLARED = list({(op.name, op.missing): op for op in reversed(OF_PYTORCH)}.values())
"""One row per op and set of missing operands, which decide how PyTorch handles an op."""
FEW = ("odd sizes", "every block size", "one hub", "no edges")
every_op = pytest.mark.parametrize("op", OPS, ids=str)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def as_tuple(result: Any) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def arguments(op: Op, problem: Problem, dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    problem = op.problem or problem
    return op.features(problem, dtype), op.tables(op.rest(problem.graph()), dtype)


def double(tensors: list[Tensor]) -> list[Tensor]:
    return [x.double() if x.is_floating_point() else x for x in tensors]


def same_bits(op: Op, dtype: torch.dtype = torch.float64) -> dict[str, float]:
    return tolerance(dtype, terms=1000) if op.blas else {"rtol": 0, "atol": 0}


def assert_same(got: Any, want: Any, op: Op, dtype: torch.dtype = torch.float64) -> None:
    """Compare bits, or numbers where PyTorch's matrix products compute them."""
    if isinstance(want, Tensor):
        scale = order_one(want) if op.blas else 1.0
        assert_close(got / scale, want / scale, **same_bits(op, dtype))
        return
    for mine, theirs in zip(got, want, strict=True):
        assert_same(mine, theirs, op, dtype)


def order_one(values: Tensor) -> float:
    """Return the divisor that scales values to order one, which tolerances assume."""
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


def distinct(op: Op, problems: Sequence[Problem]) -> Iterator[Problem]:
    """Yield problems whose arguments differ, and the first one of those without a feature."""
    seen = set()
    for problem in problems:
        features, rest = arguments(op, problem, torch.float32)
        key = (*(x.shape for x in features), *(hash(x.numpy().tobytes()) for x in rest))
        if not any(x.numel() for x in features):
            key = ()
        if key not in seen:
            seen.add(key)
            yield problem


def test_every_declared_op_has_a_row_in_the_table():
    assert {op.name for op in OF_PYTORCH} == set(SCHEMAS)


@pytest.mark.kernels
@every_dtype
@every_op
def test_op_and_two_orders_of_gradients_agree_with_the_reference(op, dtype):
    # Both dtypes share templates, and rows of one op and one set of operands share kernels.
    few = [p for p in PROBLEMS if p.name in FEW]
    problems = PROBLEMS if FULL else few
    if not FULL and op in DECLARED and dtype == torch.float32:
        problems = PROBLEMS
    elif not FULL and op not in DECLARED and dtype == torch.float64:
        problems = []
    for problem in distinct(op, [SMALL, *problems]):
        features, rest = arguments(op, problem, dtype)
        got = derivatives(op.call, features, rest)
        want = derivatives(op.reference, double(features), double(rest))
        bound = tolerance(dtype, max(problem.terms, op.terms))
        for order, (mine, theirs) in enumerate(zip(got, want, strict=True)):
            for a, b in zip(mine, theirs, strict=True):
                scale = order_one(b)
                assert a.dtype == dtype
                name = f"{problem}, order {order}: ".__add__
                assert_close(a.double() / scale, b / scale, **bound, msg=name)


def test_a_wrong_number_is_seen():
    op = next(op for op in OPS if op.name == "gather_sum")
    wrong = replace(op, call=lambda *given: op.call(*given) + 1e-6)
    with pytest.raises(AssertionError, match="small, order 0"):
        test_op_and_two_orders_of_gradients_agree_with_the_reference(wrong, torch.float64)


def test_two_runs_have_the_same_bits():
    op = next(op for op in OPS if str(op) == "so2_conv_backward, sums of weights by parts")
    features, rest = arguments(op, SMALL, torch.float32)
    assert all(map(torch.equal, op.call(*features, *rest), op.call(*features, *rest)))


@pytest.mark.parametrize("op", tier(DECLARED, [op for op in OPS if not op.problem]), ids=str)
def test_gradients_agree_with_finite_differences(op):
    features, rest = arguments(op, SMALL, torch.float64)
    inputs = [x.requires_grad_() for x in features]

    def function(*x: Tensor) -> Any:
        return op.call(*x, *rest)

    # random directions where single entries are too many
    fast = not FULL or sum(x.numel() for x in inputs) > 300
    assert torch.autograd.gradcheck(function, inputs, fast_mode=fast)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=fast)


@pytest.mark.parametrize("op", tier(DECLARED, OF_PYTORCH), ids=str)
def test_opcheck(op):
    utilities = ("test_schema", "test_faketensor", "test_autograd_registration")
    dispatch = ("test_aot_dispatch_dynamic",)  # slow; the mode matrix compiles float64 too
    forward = not op.name.endswith("_backward")  # which traces its backward pass as well
    cases = [(SMALL, torch.float32, utilities + dispatch * (FULL or forward))]
    cases += [(SMALL, torch.float64, utilities + dispatch * FULL)]
    if FULL:
        for problem in distinct(op, PROBLEMS[-5:]):
            cases.append((problem, torch.float64, utilities + dispatch))
    for problem, dtype, chosen in cases:
        features, rest = arguments(op, problem, dtype)
        given = op.arguments([*(x.requires_grad_() for x in features), *rest])
        torch.library.opcheck(op.overload, tuple(given), test_utils=chosen)


def strided(x: Tensor) -> Tensor:
    """The same numbers, not contiguous."""
    return x.mT.contiguous().mT if x.ndim > 1 else torch.stack([x, x], dim=1)[:, 0]


@pytest.mark.kernels
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
    # gradients that arrive expanded
    inputs = [x.requires_grad_() for x in features]
    results = [r for r in as_tuple(op.call(*inputs, *rest)) if r.requires_grad]
    ones = [torch.ones((), dtype=r.dtype).expand_as(r) for r in results]
    got = torch.autograd.grad(results, inputs, ones, retain_graph=True, materialize_grads=True)
    ones = [g.contiguous() for g in ones]
    assert_same(got, torch.autograd.grad(results, inputs, ones, materialize_grads=True), op)


@pytest.fixture
def threads_for_any_work() -> Iterator[None]:
    threads = torch.get_num_threads()
    set_work = ctypes.CDLL(kernels_info()["cpu"]).equigeo_set_work_per_thread
    set_work(ctypes.c_double(1))
    yield
    set_work(ctypes.c_double(2**20))
    torch.set_num_threads(threads)


@pytest.mark.kernels
@pytest.mark.threads
@pytest.mark.usefixtures("threads_for_any_work")
@pytest.mark.parametrize("op", tier(DECLARED, OPS), ids=str)
def test_bits_do_not_depend_on_the_number_of_threads(op):
    for dtype in (torch.float32, *[torch.bfloat16] * reads_bfloat16(op.name)):
        features, rest = arguments(op, SEVERAL_CHUNKS, dtype)
        runs = []
        for threads in tier((1, 2, 4), (1, 2, 3, 3, 4)):
            torch.set_num_threads(threads)
            # Gradients are ops with rows of their own.
            runs.append(derivatives(op.call, features, rest, orders=int(FULL)))
        for run in runs[1:]:
            assert_same(run, runs[0], op, dtype)


# Threads of the process that a call starts; arguments are made without any.
STARTED = """
import os, numpy, torch
from equigeo.ops import symmetric_eigen
from equigeo.tensor_products import FullTensorProduct
torch.set_num_threads(2)
product = FullTensorProduct("16x0e+16x1o", "16x0e+16x1o")
for op, *shape in (product, 64, 64), (symmetric_eigen, 4096, 3, 3), (symmetric_eigen, 32768, 3, 3):
    given = torch.from_numpy(numpy.zeros(shape))
    before = set(os.listdir("/proc/self/task"))
    op(*[given] * (1 + (op is product)))
    print(len(set(os.listdir("/proc/self/task")) - before))
"""


@pytest.mark.kernels
@pytest.mark.threads
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="lists threads in /proc")
def test_a_second_thread_starts_only_for_enough_work():
    command = [sys.executable, "-c", STARTED]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["0", "0", "1"]


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["channelwise_conv_backward", "spline_conv_backward"])
def test_sums_over_edges_by_portions_agree_with_the_reference(name, dtype):
    op = next(op for op in OPS if op.label.startswith(f"{name}, odd"))
    features, rest = arguments(op, SEVERAL_CHUNKS, dtype)
    got = op.call(*features, *rest)
    exact = op.reference(*double(features), *double(rest))
    for mine, theirs in zip(got, exact, strict=True):
        # A source has a few of the edges.
        assert_close_to_stored(mine, theirs, max(SMALL.terms, op.terms), roundings=1)


@pytest.mark.kernels
@every_op
def test_half_precision_is_storage_alone(op):
    problems = [SMALL, *(PROBLEMS[1:8] if reads_bfloat16(op.name) else PROBLEMS[1:8:6])]
    for problem in distinct(op, problems):
        for dtype in HALF:
            features, rest = arguments(op, problem, dtype)
            got = as_tuple(op.call(*features, *rest))
            exact = as_tuple(op.reference(*double(features), *double(rest)))
            for mine, theirs in zip(got, exact, strict=True):
                assert mine.dtype == dtype
                terms = max(problem.terms, op.terms)
                assert_close_to_stored(mine, theirs, terms, roundings=1, case=f"{problem}: ")


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", HALF, ids=str)
@every_op
def test_gradients_of_half_precision_are_rounded_once(op, dtype):
    features, rest = arguments(op, SMALL, dtype)
    got = derivatives(op.call, features, rest, directions_in=dtype)
    want = derivatives(op.reference, double(features), double(rest), directions_in=dtype)
    # Derivatives of gradients are sums, whose up to three parts an op that reads bfloat16 rounds.
    parts = 3 if dtype == torch.bfloat16 and reads_bfloat16(op.name) else 1
    for roundings, mine, theirs in zip((1, parts, parts), got, want, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert a.dtype == dtype
            assert_close_to_stored(a, b, max(SMALL.terms, op.terms), roundings)


def assert_close_to_stored(
    found: Tensor, exact: Tensor, terms: int, roundings: int, case: str = ""
) -> None:
    """Roundings to storage, after those of float32."""
    scale = order_one(exact)
    # Storage holds no larger values than its largest: those are infinite.
    exact = torch.where(exact.abs() > torch.finfo(found.dtype).max, exact * math.inf, exact)
    stored = roundings * torch.finfo(found.dtype).eps
    # Parts of a sum may be as large as any result.
    lost = tolerance(torch.float32, terms)["atol"] + (stored if roundings > 1 else 0)
    got, want = found.double() / scale, exact.double() / scale
    assert_close(got, want, rtol=stored, atol=lost, msg=case.__add__)
