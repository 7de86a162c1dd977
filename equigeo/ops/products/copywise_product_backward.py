"""The three gradients of a copywise product in one pass."""

from __future__ import annotations

from torch import Tensor

from equigeo.ops.products.connected_reference import connected_product_backward, copywise
from equigeo.ops.products.copywise_product_double_backward import copywise_product_double_backward
from equigeo.ops.products.multilinear import FORM, backward_by_double_backward
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.forward_rules import gradients_linear_in

SCHEMA = (
    "copywise_product_backward(Tensor grad, Tensor x, Tensor y, Tensor? weight, Tensor paths, "
    "Tensor entries, Tensor values) -> (Tensor, Tensor, Tensor)"
)


def copywise_product_backward_reference(
    grad: Tensor, x: Tensor, y: Tensor, weight: Tensor | None, **table: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Reference implementation of the op; no weights have an empty gradient."""
    return connected_product_backward(grad, x, y, weight, table, copywise)


copywise_product_backward = declare(
    SCHEMA,
    reference=copywise_product_backward_reference,
    fake=like("x", "y", "weight"),
    backward=backward_by_double_backward(copywise_product_double_backward),
    forward=gradients_linear_in("copywise_product_backward", FORM),
    batch=blocks(FORM),
)
