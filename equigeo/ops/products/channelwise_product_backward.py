"""The three gradients of a channelwise product in one pass."""

from __future__ import annotations

from torch import Tensor

from equigeo.ops.products.channelwise_product_double_backward import (
    channelwise_product_double_backward,
)
from equigeo.ops.products.connected_reference import channelwise, connected_product_backward
from equigeo.ops.products.multilinear import FORM, backward_by_double_backward
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.forward_rules import gradients_linear_in

SCHEMA = (
    "channelwise_product_backward(Tensor grad, Tensor x, Tensor y, Tensor? weight, Tensor paths, "
    "Tensor entries, Tensor values, bool ir_mul) -> (Tensor, Tensor, Tensor)"
)


def channelwise_product_backward_reference(
    grad: Tensor, x: Tensor, y: Tensor, weight: Tensor | None, ir_mul: bool, **table: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Reference implementation of the op; the gradient of missing weights is empty."""
    return connected_product_backward(grad, x, y, weight, table, channelwise)


channelwise_product_backward = declare(
    SCHEMA,
    reference=channelwise_product_backward_reference,
    fake=like("x", "y", "weight"),
    backward=backward_by_double_backward(channelwise_product_double_backward),
    forward=gradients_linear_in("channelwise_product_backward", FORM),
    batch=blocks(FORM),
    bfloat16=FORM,
)
