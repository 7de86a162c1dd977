"""Derivatives of the gradients of a channelwise convolution along tangents."""

from __future__ import annotations

from equigeo.ops.products.conv_graph import INDICES, OFFSETS
from equigeo.ops.products.multilinear import (
    FEATURES,
    backward_of_double_backward,
    composed_double_backward,
    fake_double_backward,
)
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "channelwise_conv_double_backward(Tensor grad, Tensor x, Tensor y, Tensor? weight, "
    "Tensor? x_tangent, Tensor? y_tangent, Tensor? weight_tangent, Tensor source, Tensor ptr, "
    "Tensor order, Tensor target, Tensor back_order, Tensor back_ptr, Tensor paths, "
    "Tensor entries, Tensor values, bool ir_mul, bool by_grad, bool by_x, bool by_y, "
    "bool by_weight) -> (Tensor, Tensor, Tensor, Tensor)"
)

channelwise_conv_double_backward = declare(
    SCHEMA,
    reference=composed_double_backward("channelwise_conv"),
    fake=fake_double_backward,
    backward=backward_of_double_backward("channelwise_conv"),
    batch=blocks(FEATURES, indices=INDICES, offsets=OFFSETS),
    bfloat16=FEATURES,
)
