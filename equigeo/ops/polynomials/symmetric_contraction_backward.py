"""The gradients of a symmetric contraction in one pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.polynomials.polynomial_reference import gradients, sets_of_rows
from equigeo.ops.polynomials.polynomial_table import PolynomialTable
from equigeo.ops.polynomials.symmetric_contraction_double_backward import (
    symmetric_contraction_double_backward,
)
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "symmetric_contraction_backward(Tensor grad, Tensor x, Tensor weight, Tensor order, "
    "Tensor ptr, Tensor products, Tensor polynomials, Tensor groups, Tensor nodes, Tensor values, "
    "int[] levels, int[] dims_in, int[] dims_out, bool only_x) -> (Tensor, Tensor, Tensor)"
)


def symmetric_contraction_backward_reference(
    grad: Tensor, x: Tensor, weight: Tensor, order: Tensor, ptr: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Readable body of the op: gradients of :math:`\langle g, z(x, w) \rangle`.

    With respect to g (which is the output z), x and w; those of g and w are empty if ``only_x``.
    ``order`` lists the rows of each set of weights and ``ptr`` where each list begins.
    """
    *table, only_x = rest
    index = sets_of_rows(order, ptr)
    whole = gradients(grad[None], x[None], weight[None], index, PolynomialTable(*table))
    to_grad, to_x, to_weight = (jet[0] for jet in whole)
    return (x.new_empty(0), to_x, x.new_empty(0)) if only_x else (to_grad, to_x, to_weight)


def _fake(grad: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    only_x = rest[-1]
    shapes = ((0,), x.shape, (0,)) if only_x else (grad.shape, x.shape, weight.shape)
    to_grad, to_x, to_weight = (x.new_empty(shape) for shape in shapes)
    return to_grad, to_x, to_weight


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:10])
    *ctx.lists, ctx.only_x = inputs[10:]


def _backward(ctx: Any, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor | None, ...]:
    """Second order: derivatives commute, so that the form is differentiated along (a, b, c)."""
    grad, x, weight, *rest = ctx.saved_tensors
    if ctx.only_x:
        a, c = torch.zeros_like(grad), torch.zeros_like(weight)
    slopes = symmetric_contraction_double_backward(grad, x, weight, a, b, c, *rest, *ctx.lists)
    return *slopes, *(None,) * 11


symmetric_contraction_backward = declare(
    SCHEMA,
    reference=symmetric_contraction_backward_reference,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
)
