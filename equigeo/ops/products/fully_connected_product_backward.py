"""The three gradients of a fully connected product in one pass."""

from __future__ import annotations

from torch import Tensor

from equigeo.ops.products.connected_reference import connected_product_backward, fully_connected
from equigeo.ops.products.fully_connected_product_double_backward import (
    fully_connected_product_double_backward,
)
from equigeo.ops.products.multilinear import FORM, backward_by_double_backward
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.forward_rules import gradients_linear_in

SCHEMA = (
    "fully_connected_product_backward(Tensor grad, Tensor x, Tensor y, Tensor weight, "
    "Tensor paths, Tensor entries, Tensor values) -> (Tensor, Tensor, Tensor)"
)


def fully_connected_product_backward_reference(
    grad: Tensor, x: Tensor, y: Tensor, weight: Tensor, **table: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Reference implementation of the op."""
    return connected_product_backward(grad, x, y, weight, table, fully_connected)


fully_connected_product_backward = declare(
    SCHEMA,
    reference=fully_connected_product_backward_reference,
    fake=like("x", "y", "weight"),
    backward=backward_by_double_backward(fully_connected_product_double_backward),
    forward=gradients_linear_in("fully_connected_product_backward", FORM),
    batch=blocks(FORM),
)
