"""How the gradients of a symmetric contraction change when everything moves along a direction."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.polynomials.polynomial_reference import gradients, sets_of_rows
from equigeo.ops.polynomials.polynomial_table import PolynomialTable
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "symmetric_contraction_double_backward(Tensor grad, Tensor x, Tensor weight, "
    "Tensor grad_tangent, Tensor x_tangent, Tensor weight_tangent, Tensor order, Tensor ptr, "
    "Tensor products, Tensor polynomials, Tensor groups, Tensor nodes, Tensor values, "
    "int[] levels, int[] dims_in, int[] dims_out) -> (Tensor, Tensor, Tensor)"
)


def symmetric_contraction_double_backward_reference(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    grad_tangent: Tensor,
    x_tangent: Tensor,
    weight_tangent: Tensor,
    *rest: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Readable body of the op: derivatives of the three gradients along the tangents."""
    order, ptr, *table = rest
    pairs = ((grad, grad_tangent), (x, x_tangent), (weight, weight_tangent))
    g, v, w = (torch.stack(pair) for pair in pairs)
    whole = gradients(g, v, w, sets_of_rows(order, ptr), PolynomialTable(*table))
    to_grad, to_x, to_weight = (jet[1] for jet in whole)
    return to_grad, to_x, to_weight


def _fake(grad: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(grad.shape), x.new_empty(x.shape), x.new_empty(weight.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:13])
    ctx.lists = inputs[13:]


def _backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor | None, ...]:
    """Third order, which no kernel has: the readable arithmetic, along two directions at once."""
    *both, order, ptr, products, polynomials, groups, nodes, values = ctx.saved_tensors
    table = PolynomialTable(products, polynomials, groups, nodes, values, *ctx.lists)
    moved = zip(both[:3], both[3:], arriving, strict=True)
    grad, x, weight = (torch.stack([x, a, b, torch.zeros_like(x)]) for x, a, b in moved)
    whole = gradients(grad, x, weight, sets_of_rows(order, ptr), table)
    return *(jet[3] for jet in whole), *(jet[2] for jet in whole), *(None,) * 10


symmetric_contraction_double_backward = declare(
    SCHEMA,
    reference=symmetric_contraction_double_backward_reference,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
)
