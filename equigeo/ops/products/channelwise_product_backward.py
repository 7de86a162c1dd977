"""The three gradients of a channelwise product in one pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.path_table import read_paths
from equigeo.ops.products.connected_reference import (
    CHANNELWISE,
    add_to_segment,
    read_segment,
    weight_segment,
    weights_of,
)
from equigeo.ops.products.multilinear import multilinear_second_order
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "channelwise_product_backward(Tensor grad, Tensor x, Tensor y, Tensor? weight, Tensor paths, "
    "Tensor entries, Tensor values, bool ir_mul) -> (Tensor, Tensor, Tensor)"
)


def channelwise_product_backward_reference(
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    paths: Tensor,
    entries: Tensor,
    values: Tensor,
    ir_mul: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Readable body of the op; the gradient of the weights is empty where there are none."""
    dtype = x.dtype
    grad, x, y = (given.to(values.dtype) for given in (grad, x, y))
    weight = None if weight is None else weight.to(values.dtype)
    to_x, to_y = torch.zeros_like(x), torch.zeros_like(y)
    to_weight = x.new_zeros(0, 0) if weight is None else torch.zeros_like(weight)
    for path in read_paths(paths, entries, values):
        g, xs, ys = read_segment(grad, path.out), read_segment(x, path.x), read_segment(y, path.y)
        w, c = weights_of(weight, path, CHANNELWISE, x), path.coefficients
        to_xs = torch.einsum("euk,evj,ijk,euv->eui", g, ys, c, w)
        to_ys = torch.einsum("euk,eui,ijk,euv->evj", g, xs, c, w)
        to_x, to_y = add_to_segment(to_x, path.x, to_xs), add_to_segment(to_y, path.y, to_ys)
        if path.weight is not None:
            to_w = torch.einsum("euk,eui,evj,ijk->euv", g, xs, ys, c)
            to_weight = add_to_segment(to_weight, weight_segment(path, CHANNELWISE), to_w)
    return to_x.to(dtype), to_y.to(dtype), to_weight.to(dtype)


def _fake(
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    paths: Tensor,
    entries: Tensor,
    values: Tensor,
    ir_mul: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    shape = (0, 0) if weight is None else weight.shape
    return x.new_empty(x.shape), y.new_empty(y.shape), x.new_empty(shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:7])
    ctx.ir_mul = inputs[7]


def _backward(ctx: Any, *arriving: Any) -> tuple[Tensor | None, ...]:
    *point, paths, entries, values = ctx.saved_tensors
    table = paths, entries, values

    def product(x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        op = torch.ops.equigeo.channelwise_product.default
        out: Tensor = op(x, y, weight, *table, point[0].shape[1], ctx.ir_mul)
        return out

    def gradients(*operands: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        results: tuple[Tensor, Tensor, Tensor] = channelwise_product_backward(
            *operands, *table, ctx.ir_mul
        )
        return results

    second = multilinear_second_order(product, gradients, tuple(point), arriving)
    return *second, *(None,) * 4


channelwise_product_backward = declare(
    SCHEMA,
    reference=channelwise_product_backward_reference,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
)
