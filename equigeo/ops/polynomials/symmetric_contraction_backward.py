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
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import Gradients, Tangents, declare

SCHEMA = (
    "symmetric_contraction_backward(Tensor grad, Tensor x, Tensor weight, Tensor order, "
    "Tensor ptr, Tensor products, Tensor polynomials, Tensor groups, Tensor nodes, Tensor values, "
    "int[] levels, int[] dims_in, int[] dims_out, bool only_x) -> (Tensor, Tensor, Tensor)"
)


def symmetric_contraction_backward_reference(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    order: Tensor,  # rows of each set of weights, one set after another
    ptr: Tensor,  # offsets of the sets in order
    *,
    only_x: bool,
    **table: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the derivatives of <g, z(x, w)> by g, x and w; only that by x if ``only_x``."""
    index = sets_of_rows(order, ptr)
    whole = gradients(grad[None], x[None], weight[None], index, PolynomialTable(**table))
    to_grad, to_x, to_weight = (jet[0] for jet in whole)
    return (x.new_empty(0), to_x, x.new_empty(0)) if only_x else (to_grad, to_x, to_weight)


def _fake(grad: Tensor, x: Tensor, weight: Tensor, only_x: bool) -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((0,), x.shape, (0,)) if only_x else (grad.shape, x.shape, weight.shape)
    to_grad, to_x, to_weight = (x.new_empty(shape) for shape in shapes)
    return to_grad, to_x, to_weight


def _backward(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    only_x: bool,
    **rest: Any,
) -> Gradients:
    """Second order: differentiate the form along (a, b, c), since derivatives commute."""
    if only_x:  # the other two results are empty
        a, c = torch.zeros_like(grad), torch.zeros_like(weight)
    slopes = symmetric_contraction_double_backward(grad, x, weight, a, b, c, *rest.values())
    return dict(zip(("grad", "x", "weight"), slopes, strict=True))


def _forward(
    tangents: Tangents, *, grad: Tensor, x: Tensor, weight: Tensor, only_x: bool, **rest: Any
) -> tuple[Tensor | None, ...]:
    point = {"grad": grad, "x": x, "weight": weight}
    along = [tangents.get(name, torch.zeros_like(at)) for name, at in point.items()]
    changes = symmetric_contraction_double_backward(*point.values(), *along, *rest.values())
    return (None, changes[1], None) if only_x else tuple(changes)


symmetric_contraction_backward = declare(
    SCHEMA,
    reference=symmetric_contraction_backward_reference,
    fake=_fake,
    backward=_backward,
    forward=_forward,
    batch=blocks(("grad", "x", "weight"), indices={"order": "x"}, offsets=["ptr"]),
)
