"""Derivatives of the gradients of a fully connected product along tangents."""

from __future__ import annotations

from equigeo.ops.products.multilinear import (
    FEATURES,
    backward_of_double_backward,
    composed_double_backward,
    fake_double_backward,
)
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "fully_connected_product_double_backward(Tensor grad, Tensor x, Tensor y, Tensor weight, "
    "Tensor? x_tangent, Tensor? y_tangent, Tensor? weight_tangent, Tensor paths, Tensor entries, "
    "Tensor values, bool by_grad, bool by_x, bool by_y, bool by_weight) -> "
    "(Tensor, Tensor, Tensor, Tensor)"
)

fully_connected_product_double_backward = declare(
    SCHEMA,
    reference=composed_double_backward("fully_connected_product"),
    fake=fake_double_backward,
    backward=backward_of_double_backward("fully_connected_product"),
    batch=blocks(FEATURES),
)
