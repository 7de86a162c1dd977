"""Comparison of every op on a device with its reference implementation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from equigeo._core.tensors import computed_in
from equigeo.ops.runtime.declare import SCHEMAS, declared, reads_bfloat16, reference_of
from equigeo.ops.runtime.library import loaded_library, runs_compiled
from equigeo.ops.runtime.tolerance import tolerance
from equigeo.ops.self_test_cases import Case, all_cases

Call = Callable[..., Any]
PARTS = ("values", "first gradients", "second gradients")

# Every kernel is an op, and so are those of gradients: values in all dtypes go through all of them.
# How gradients are put together does not depend on the dtype; part of it are matrix products of
# PyTorch's own, which a process may have set to round float32 to TF32.
ORDERS = {torch.float64: 2, torch.float32: 0}


@dataclass(frozen=True)
class Deviation:
    """Error of one result of a kernel relative to the reference implementation."""

    op: str
    what: str  # which result, and its dtype
    error: float  # largest error relative to max(largest value, 1); NaN if the kernel returns NaN
    bound: float  # tolerated error

    @property
    def is_tolerated(self) -> bool:
        """Return whether the error is within the bound; False for NaN."""
        return self.error <= self.bound

    @property
    def share(self) -> float:
        """Return the error relative to the bound."""
        return self.error / self.bound

    def __str__(self) -> str:
        return (
            f"{self.op}, {self.what}: it differs from the reference implementation by "
            f"{self.error:.3g}, where {self.bound:.3g} is tolerated"
        )


def worst_deviation(
    case: Case,
    device: torch.device,  # device of the kernels
) -> Deviation:
    """Run a case in every kernel dtype and return the largest deviation relative to its bound."""
    found = [one for each in (case, *case.others) for one in _deviations(each, device)]
    return max(found, key=lambda one: one.share if one.error == one.error else torch.inf)


def _deviations(case: Case, device: torch.device) -> Iterator[Deviation]:
    # The reference runs on the CPU in float64, independently of the device.
    want = _results(reference_of(case.op), case, case.features, case.rest, case.orders)
    stored = {torch.bfloat16: 0} if reads_bfloat16(case.op) else {}
    for dtype, most in {**ORDERS, **stored}.items():
        orders = min(most, case.orders)
        features = tuple(x.to(device, dtype) for x in case.features)
        rest = tuple(_moved(x, device, computed_in(dtype)) for x in case.rest)
        got = _results(declared(case.op), case, features, rest, orders)
        for name, mine, theirs in zip(PARTS, got, want, strict=False):
            for k, (x, y) in enumerate(zip(mine, theirs, strict=True)):
                what = f"result {k} of the {name} in {str(dtype).removeprefix('torch.')}"
                yield Deviation(case.op, what, *_error(x, y, dtype, case.terms))


def _moved(x: Any, device: torch.device, dtype: torch.dtype) -> Any:
    if not isinstance(x, Tensor):
        return x
    return x.to(device, dtype) if x.is_floating_point() else x.to(device)


def _results(
    function: Call, case: Case, features: tuple[Tensor, ...], rest: tuple[Any, ...], orders: int
) -> list[tuple[Tensor, ...]]:
    """Return values and derivatives along fixed directions, each order from the previous one."""
    inputs = tuple(x.detach().requires_grad_() for x in features)
    result = function(*inputs, *rest)
    found = [result if isinstance(result, tuple) else (result,)]
    smooth = found[0][: case.differentiable]
    for _ in range(orders):
        smooth = _differentiated(smooth, inputs)
        found.append(smooth)
    return found


def _differentiated(results: tuple[Tensor, ...], inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    total = results[0].new_zeros(())
    for x in results:
        direction = torch.linspace(-1, 1, x.numel(), dtype=torch.float64)
        total = total + (x.flatten() * direction.to(x)).sum()
    if not total.requires_grad:  # of a function that is linear in all inputs
        return tuple(torch.zeros_like(x) for x in inputs)
    return torch.autograd.grad(total, inputs, create_graph=True, materialize_grads=True)


def _error(got: Tensor, want: Tensor, dtype: torch.dtype, terms: int) -> tuple[float, float]:
    """Return the error that is largest relative to its bound, and the bound."""
    got, want = got.detach().cpu().double(), want.detach().double()
    # Of order one, as the tolerance supposes.
    scale = max(1.0, float(want.abs().max()))
    bound = tolerance(computed_in(dtype), terms)
    if dtype == torch.bfloat16:  # and one rounding to the stored dtype
        bound = {**bound, "rtol": torch.finfo(dtype).eps}
    allowed = bound["atol"] + bound["rtol"] * want.abs() / scale
    error = (got - want).abs() / scale
    where = int((error / allowed).nan_to_num(torch.inf).argmax())
    return float(error.flatten()[where]), float(allowed.flatten()[where])


@dataclass(frozen=True)
class OpCheck:
    """Result of comparing one op with its reference implementation."""

    op: str
    state: Literal["passed", "failed", "reference only"]
    text: str  # the error that comes closest to its tolerance, or the failure
    seconds: float


def check_ops(device: torch.device | str = "cpu") -> list[OpCheck]:
    """Compare the kernel of every op with its reference implementation on small problems.

    Values in every dtype of the kernels, first and second gradients in float64. Returns one result
    per op, by name, with ``op``, ``state``, ``text`` and ``seconds``.

    Examples
    --------
    >>> {found.state for found in check_ops()} <= {"passed", "reference only"}
    True
    """
    where = torch.device(device)
    cases = {case.op: case for case in all_cases()}
    return [_check(op, cases.get(op), where) for op in sorted(SCHEMAS)]


def _check(op: str, case: Case | None, device: torch.device) -> OpCheck:
    has_library = loaded_library(device.type) is not None
    if case is None or not has_library or not runs_compiled(op, device):
        return OpCheck(op, "reference only", "no kernel for this device", 0.0)
    start = time.perf_counter()
    try:
        found = worst_deviation(case, device)
        state: Literal["passed", "failed"] = "passed" if found.is_tolerated else "failed"
        text = str(found)
    except RuntimeError as error:
        state, text = "failed", f"{op}: {' '.join(str(error).split())}"
    return OpCheck(op, state, text, round(time.perf_counter() - start, 3))
