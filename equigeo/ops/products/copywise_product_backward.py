"""The three gradients of a copywise product in one pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.products.connected_reference import connected_product_backward, copywise
from equigeo.ops.products.multilinear import multilinear_second_order
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "copywise_product_backward(Tensor grad, Tensor x, Tensor y, Tensor? weight, Tensor paths, "
    "Tensor entries, Tensor values) -> (Tensor, Tensor, Tensor)"
)


def copywise_product_backward_reference(
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    paths: Tensor,
    entries: Tensor,
    values: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Readable body of the op; the gradient of the weights is empty where there are none."""
    table = paths, entries, values
    return connected_product_backward(grad, x, y, weight, table, copywise)


def _fake(
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    paths: Tensor,
    entries: Tensor,
    values: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    shape = (0, 0) if weight is None else weight.shape
    return x.new_empty(x.shape), y.new_empty(y.shape), x.new_empty(shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:7])


def _backward(ctx: Any, *arriving: Any) -> tuple[Tensor | None, ...]:
    *point, paths, entries, values = ctx.saved_tensors
    table = paths, entries, values

    def product(x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        op = torch.ops.equigeo.copywise_product.default
        out: Tensor = op(x, y, weight, *table, point[0].shape[1])
        return out

    def gradients(*operands: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        results: tuple[Tensor, Tensor, Tensor] = copywise_product_backward(*operands, *table)
        return results

    second = multilinear_second_order(product, gradients, tuple(point), arriving)
    return *second, *(None,) * 3


copywise_product_backward = declare(
    SCHEMA,
    reference=copywise_product_backward_reference,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
)
