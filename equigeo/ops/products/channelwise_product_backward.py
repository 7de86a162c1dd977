"""The three gradients of a channelwise product in one pass."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.ops.path_table import read_paths
from equigeo.ops.products.channelwise_product_double_backward import (
    channelwise_product_double_backward,
)
from equigeo.ops.products.connected_reference import (
    CHANNELWISE,
    add_to_segment,
    read_segment,
    weight_segment,
    weights_of,
)
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
    dtype, working = x.dtype, table["values"].dtype
    grad, x, y = (given.to(working) for given in (grad, x, y))
    weight = None if weight is None else weight.to(working)
    to_x, to_y = torch.zeros_like(x), torch.zeros_like(y)
    to_weight = x.new_zeros(0, 0) if weight is None else torch.zeros_like(weight)
    for path in read_paths(**table):
        g, xs, ys = read_segment(grad, path.out), read_segment(x, path.x), read_segment(y, path.y)
        w, c = weights_of(weight, path, CHANNELWISE, x), path.coefficients
        to_xs = torch.einsum("euk,evj,ijk,euv->eui", g, ys, c, w)
        to_ys = torch.einsum("euk,eui,ijk,euv->evj", g, xs, c, w)
        to_x, to_y = add_to_segment(to_x, path.x, to_xs), add_to_segment(to_y, path.y, to_ys)
        if path.weight is not None:
            to_w = torch.einsum("euk,eui,evj,ijk->euv", g, xs, ys, c)
            to_weight = add_to_segment(to_weight, weight_segment(path, CHANNELWISE), to_w)
    return to_x.to(dtype), to_y.to(dtype), to_weight.to(dtype)


channelwise_product_backward = declare(
    SCHEMA,
    reference=channelwise_product_backward_reference,
    fake=like("x", "y", "weight"),
    backward=backward_by_double_backward(channelwise_product_double_backward),
    forward=gradients_linear_in("channelwise_product_backward", FORM),
    batch=blocks(FORM),
    bfloat16=FORM,
)
