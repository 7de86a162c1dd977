"""The three gradients of a channelwise convolution."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.products.channelwise_product_backward import channelwise_product_backward_reference
from equigeo.ops.products.multilinear import multilinear_second_order
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "channelwise_conv_backward(Tensor grad, Tensor x, Tensor y, Tensor? weight, Tensor source, "
    "Tensor ptr, Tensor order, Tensor target, Tensor back_order, Tensor back_ptr, Tensor paths, "
    "Tensor entries, Tensor values, bool ir_mul) -> (Tensor, Tensor, Tensor)"
)


def channelwise_conv_backward_reference(
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    source: Tensor,
    ptr: Tensor,
    order: Tensor,
    target: Tensor,
    *rest: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Readable body of the op; the gradient of the weights is empty where there are none."""
    _, _, paths, entries, values, ir_mul = rest
    arriving, sent, edge_attr = (
        row.to(values.dtype) for row in (grad[target], x[source], y[order])
    )
    weights = None if weight is None else weight[order].to(values.dtype)
    to_x, to_y, to_weight = channelwise_product_backward_reference(
        arriving, sent, edge_attr, weights, paths, entries, values, ir_mul
    )
    to_x = to_x.new_zeros(x.shape).index_add(0, source, to_x)
    to_y = torch.zeros_like(to_y).index_copy(0, order, to_y)
    if weight is not None:
        to_weight = torch.zeros_like(to_weight).index_copy(0, order, to_weight)
    return to_x.to(x.dtype), to_y.to(x.dtype), to_weight.to(x.dtype)


def _fake(
    grad: Tensor, x: Tensor, y: Tensor, weight: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    shape = (0, 0) if weight is None else weight.shape
    return x.new_empty(x.shape), y.new_empty(y.shape), x.new_empty(shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:13])
    ctx.ir_mul = inputs[13]


def _backward(ctx: Any, *arriving: Any) -> tuple[Tensor | None, ...]:
    """Second order as in the product: the convolution is linear in each of its arguments too."""
    grad, x, y, weight, *rest = ctx.saved_tensors

    def product(x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        op = torch.ops.equigeo.channelwise_conv.default
        out: Tensor = op(x, y, weight, *rest, grad.shape[1], ctx.ir_mul)
        return out

    def gradients(*operands: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        results: tuple[Tensor, Tensor, Tensor] = channelwise_conv_backward(
            *operands, *rest, ctx.ir_mul
        )
        return results

    second = multilinear_second_order(product, gradients, (grad, x, y, weight), arriving)
    return *second, *(None,) * 10


channelwise_conv_backward = declare(
    SCHEMA,
    reference=channelwise_conv_backward_reference,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
)
