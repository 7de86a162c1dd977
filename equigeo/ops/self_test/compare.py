"""Kernels of a device against reference implementations: values and two orders of gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.declare import declared, reference_of
from equigeo.ops.runtime.storage import computed_in
from equigeo.ops.runtime.tolerance import tolerance
from equigeo.ops.self_test.cases import Case

Call = Callable[..., Any]
PARTS = ("values", "first gradients", "second gradients")

# Every kernel is an op, and so are those of gradients: values in all dtypes go through all of them.
# How gradients are put together does not depend on the dtype; part of it are matrix products of
# PyTorch's own, which a process may have told to round float32 to TF32.
ORDERS = {torch.float64: 2, torch.float32: 0}


@dataclass(frozen=True)
class Deviation:
    """How far one result of a kernel is from the reference implementation.

    Parameters
    ----------
    op, what : str
        The op; which result, and in which dtype.
    error, bound : float
        The largest error and what is tolerated there, relative to the largest number or to one.
        No number where the kernel's result has none.
    """

    op: str
    what: str
    error: float
    bound: float

    @property
    def is_tolerated(self) -> bool:
        """Whether the error is within the bound; never where it is no number."""
        return self.error <= self.bound

    @property
    def share(self) -> float:
        """The error in units of what is tolerated."""
        return self.error / self.bound

    def __str__(self) -> str:
        """Say what differs by how much."""
        return (
            f"{self.op}, {self.what}: it differs from the reference implementation by "
            f"{self.error:.3g}, where {self.bound:.3g} is tolerated"
        )


def worst_deviation(case: Case, device: torch.device) -> Deviation:
    """Run a case in every dtype that kernels have.

    The reference implementation runs on the CPU in float64, so that it owes the device nothing.

    Parameters
    ----------
    case : Case
        The problem.
    device : torch.device
        Where the kernels run.

    Returns
    -------
    Deviation
        The largest one, in units of what is tolerated.

    Raises
    ------
    RuntimeError
        If the kernel does.
    """
    want = _results(reference_of(case.op), case, case.features, case.rest, orders=2)
    found = []
    stored = {torch.bfloat16: 0} if case.bfloat16 else {}
    for dtype, orders in {**ORDERS, **stored}.items():
        features = tuple(x.to(device, dtype) for x in case.features)
        rest = tuple(_moved(x, device, computed_in(dtype)) for x in case.rest)
        got = _results(declared(case.op), case, features, rest, orders)
        for name, mine, theirs in zip(PARTS, got, want, strict=False):
            for k, (x, y) in enumerate(zip(mine, theirs, strict=True)):
                what = f"result {k} of the {name} in {str(dtype).removeprefix('torch.')}"
                found.append(Deviation(case.op, what, *_error(x, y, dtype, case.terms)))
    return max(found, key=lambda one: one.share if one.error == one.error else torch.inf)


def _moved(x: Any, device: torch.device, dtype: torch.dtype) -> Any:
    if not isinstance(x, Tensor):
        return x
    return x.to(device, dtype) if x.is_floating_point() else x.to(device)


def _results(
    function: Call, case: Case, features: tuple[Tensor, ...], rest: tuple[Any, ...], orders: int
) -> list[tuple[Tensor, ...]]:
    """Values and derivatives along fixed directions, each those of the ones before."""
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
    """Error where it is largest against what is tolerated there, and that."""
    got, want = got.detach().cpu().double(), want.detach().double()
    # Of order one, as the tolerance supposes.
    scale = max(1.0, float(want.abs().max()))
    bound = tolerance(computed_in(dtype), terms)
    if dtype == torch.bfloat16:  # besides, one rounding to what is stored
        bound = {**bound, "rtol": torch.finfo(dtype).eps}
    allowed = bound["atol"] + bound["rtol"] * want.abs() / scale
    error = (got - want).abs() / scale
    where = int((error / allowed).nan_to_num(torch.inf).argmax())
    return float(error.flatten()[where]), float(allowed.flatten()[where])
