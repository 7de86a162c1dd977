"""Derivative of spherical harmonics and of their gradient along one direction per point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.declare import declare
from equigeo.ops.sphere.harmonics_reference import (
    batch_points,
    chosen,
    differentiate,
    direction,
    evaluate,
)

SCHEMA = (
    "spherical_harmonics_double_backward(Tensor along, Tensor grad, Tensor x, Tensor table, "
    "int[] degrees, bool normalize) -> (Tensor, Tensor)"
)


def spherical_harmonics_double_backward_reference(
    along: Tensor,
    grad: Tensor,
    x: Tensor,
    table: Tensor,
    degrees: Sequence[int],
    normalize: bool,
) -> tuple[Tensor, Tensor]:
    """Readable body of the op, differentiable by PyTorch alone."""
    unit, inverse = direction(x, normalize)
    first = differentiate(evaluate(unit, table), table)
    second = chosen(differentiate(first, table), degrees)
    radial = (unit * along).sum(-1, keepdim=True)
    turn = inverse * (along - unit * radial) if normalize else along  # the derivative of unit
    rates = torch.einsum("pi,ipk->pk", turn, chosen(first, degrees))
    change = torch.einsum("pi,ijpk,pk->pj", turn, second, grad)
    if not normalize:
        return rates, change
    slope = torch.einsum("pk,ipk->pi", grad, chosen(first, degrees))

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum(-1, keepdim=True)

    # The derivative of inverse * (slope - unit * dot(unit, slope)).
    change = change - turn * dot(unit, slope) - unit * (dot(turn, slope) + dot(unit, change))
    tangential = slope - unit * dot(unit, slope)
    return rates, inverse * (change - inverse * radial * tangential)


def _fake(
    along: Tensor,
    grad: Tensor,
    x: Tensor,
    table: Tensor,
    degrees: Sequence[int],
    normalize: bool,
) -> tuple[Tensor, Tensor]:
    return grad.new_empty(grad.shape), x.new_empty(x.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.degrees, ctx.normalize = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    """From here on PyTorch differentiates the reference: nobody waits for third derivatives."""
    *features, table = ctx.saved_tensors
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        inputs = [x if x.requires_grad else x.detach().requires_grad_() for x in features]
        along, grad, x = inputs
        results = spherical_harmonics_double_backward_reference(
            along, grad, x, table, ctx.degrees, ctx.normalize
        )
        slopes = torch.autograd.grad(results, inputs, grads, create_graph=again, allow_unused=True)
    return *slopes, None, None, None


spherical_harmonics_double_backward = declare(
    SCHEMA,
    reference=spherical_harmonics_double_backward_reference,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
    vmap=batch_points,
)
