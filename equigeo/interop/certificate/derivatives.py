"""Values, gradients and second gradients of a call, and how far two of them are apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo.interop.accelerated.arguments import random

ORDERS = ("values", "gradients", "second gradients")
# A tensor this much smaller than the largest of its kind is judged on the scale of that one: sums
# that cancel to it have lost as many digits.
CANCELLED = 1e-3

Arrange = Callable[[Tensor], Tensor]


def derivatives(
    call: Callable[..., Tensor],  # returns one tensor
    arguments: Sequence[Any],  # floating tensors are differentiated
    parameters: Sequence[Tensor],  # also differentiated
    arrange: Arrange,  # changes the memory layout of arguments and cotangents
    orders: Sequence[str] = ORDERS,  # a prefix of ORDERS
) -> dict[str, list[Tensor]]:
    """Evaluate a call and its derivatives along fixed random directions, by order."""
    leaves = [_leaf(value) for value in arguments]
    out = call(*(arrange(leaf) for leaf in leaves))
    found = {"values": [out.detach()]}
    if "gradients" not in orders:
        return found
    wanted = [leaf for leaf in leaves if leaf.requires_grad] + list(parameters)
    # Seeds that no example has: equal directions would cancel in antisymmetric products.
    cotangent = random(*out.shape, like=out, seed=10).requires_grad_()
    twice = "second gradients" in orders
    first = _gradients([out], wanted, [arrange(cotangent)], twice)
    found["gradients"] = [value.detach() for value in first]
    # Second gradients differentiate the gradients along a direction by arguments, parameters and
    # cotangent.
    if twice:
        seeded = enumerate(first, start=11)
        directions = [random(*value.shape, like=value, seed=seed) for seed, value in seeded]
        found["second gradients"] = _gradients(first, [*wanted, cotangent], directions, False)
    return found


def largest_error(got: Sequence[Tensor], want: Sequence[Tensor]) -> float:
    """Return the largest relative error; infinite for mismatched or non-finite results."""
    largest = max((_size(value) for value in want), default=0.0)
    worst = 0.0
    for ours, theirs in zip(got, want, strict=True):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return float("inf")
        error = _size(ours.double() - theirs.double())
        scale = max(_size(theirs), CANCELLED * largest)
        relative = error / scale if scale else error
        worst = max(worst, relative if relative == relative else float("inf"))  # NaN is no number
    return worst


def _leaf(value: Any) -> Any:
    return value.detach().clone().requires_grad_() if value.is_floating_point() else value


def _size(value: Tensor) -> float:
    return float(value.detach().double().abs().max()) if value.numel() else 0.0


def _gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor], again: bool
) -> list[Tensor]:
    pairs = [(y, c) for y, c in zip(outputs, cotangents, strict=True) if y.requires_grad]
    if not pairs or not inputs:
        return [torch.zeros_like(value) for value in inputs]
    values, directions = zip(*pairs, strict=True)
    found = torch.autograd.grad(
        values, inputs, directions, create_graph=again, allow_unused=True, materialize_grads=True
    )
    return list(found)
