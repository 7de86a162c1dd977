"""The three gradients of a channelwise convolution."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.products.channelwise_conv_double_backward import channelwise_conv_double_backward
from equigeo.ops.products.channelwise_product_backward import channelwise_product_backward_reference
from equigeo.ops.products.conv_graph import INDICES, OFFSETS
from equigeo.ops.products.multilinear import FORM, backward_by_double_backward
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.forward_rules import gradients_linear_in

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
    order: Tensor,
    target: Tensor,
    **rest: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Reference implementation of the op; the gradient of missing weights is empty."""
    table = {name: rest[name] for name in ("paths", "entries", "values", "ir_mul")}
    dtype = table["values"].dtype
    arriving, sent, edge_attr = (row.to(dtype) for row in (grad[target], x[source], y[order]))
    weights = None if weight is None else weight[order].to(dtype)
    to_x, to_y, to_weight = channelwise_product_backward_reference(
        arriving, sent, edge_attr, weights, **table
    )
    # Rows of y and of weights have one edge each, listed in another order; rows of x have many.
    to_x = to_x.new_zeros(x.shape).index_add(0, source, to_x)
    to_y = torch.zeros_like(to_y).index_copy(0, order, to_y)
    if weight is not None:
        to_weight = torch.zeros_like(to_weight).index_copy(0, order, to_weight)
    return to_x.to(x.dtype), to_y.to(x.dtype), to_weight.to(x.dtype)


channelwise_conv_backward = declare(
    SCHEMA,
    reference=channelwise_conv_backward_reference,
    fake=like("x", "y", "weight"),
    backward=backward_by_double_backward(channelwise_conv_double_backward),
    forward=gradients_linear_in("channelwise_conv_backward", FORM),
    batch=blocks(FORM, indices=INDICES, offsets=OFFSETS),
    bfloat16=FORM,
)
