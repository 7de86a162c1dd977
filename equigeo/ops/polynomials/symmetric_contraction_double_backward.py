"""Derivatives of the gradients of a symmetric contraction along a direction."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.polynomials.polynomial_reference import gradients, sets_of_rows
from equigeo.ops.polynomials.polynomial_table import PolynomialTable
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import Gradients, declare, like

SCHEMA = (
    "symmetric_contraction_double_backward(Tensor grad, Tensor x, Tensor weight, "
    "Tensor grad_tangent, Tensor x_tangent, Tensor weight_tangent, Tensor order, Tensor ptr, "
    "Tensor products, Tensor polynomials, Tensor groups, Tensor nodes, Tensor values, "
    "int[] levels, int[] dims_in, int[] dims_out) -> (Tensor, Tensor, Tensor)"
)

_POINT = ("grad", "x", "weight")
_ALONG = ("grad_tangent", "x_tangent", "weight_tangent")


def symmetric_contraction_double_backward_reference(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    grad_tangent: Tensor,
    x_tangent: Tensor,
    weight_tangent: Tensor,
    order: Tensor,
    ptr: Tensor,
    **table: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the derivatives of the three gradients along the tangents."""
    pairs = ((grad, grad_tangent), (x, x_tangent), (weight, weight_tangent))
    g, v, w = (torch.stack(pair) for pair in pairs)
    whole = gradients(g, v, w, sets_of_rows(order, ptr), PolynomialTable(**table))
    to_grad, to_x, to_weight = (jet[1] for jet in whole)
    return to_grad, to_x, to_weight


def _backward(*arriving: Tensor, order: Tensor, ptr: Tensor, **rest: Any) -> Gradients:
    """Third order, without a kernel: differentiate the reference along two directions."""
    point = [rest.pop(name) for name in _POINT]
    tangents = [rest.pop(name) for name in _ALONG]
    table = PolynomialTable(**rest)
    moved = zip(point, tangents, arriving, strict=True)
    grad, x, weight = (torch.stack([x, a, b, torch.zeros_like(x)]) for x, a, b in moved)
    # Jets of order two: value, both derivatives, and the mixed one.
    whole = gradients(grad, x, weight, sets_of_rows(order, ptr), table)
    of_grad, of_x, of_weight = whole
    return {
        "grad": of_grad[3],
        "x": of_x[3],
        "weight": of_weight[3],
        "grad_tangent": of_grad[2],
        "x_tangent": of_x[2],
        "weight_tangent": of_weight[2],
    }


symmetric_contraction_double_backward = declare(
    SCHEMA,
    reference=symmetric_contraction_double_backward_reference,
    fake=like("grad", "x", "weight"),
    backward=_backward,
    batch=blocks((*_POINT, *_ALONG), indices={"order": "x"}, offsets=["ptr"]),
)
