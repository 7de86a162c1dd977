"""The two gradients of a linear map by blocks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.products.linear_blocks import in_groups, read_blocks
from equigeo.ops.runtime.batching import blocks as rows_of_a_batch
from equigeo.ops.runtime.declare import Gradients, declare, declared
from equigeo.ops.runtime.forward_rules import gradients_linear_in

SCHEMA = (
    "block_linear_backward(Tensor grad, Tensor x, Tensor weight, Tensor blocks, Tensor factors, "
    "bool ir_mul, bool by_x, bool by_weight) -> (Tensor, Tensor)"
)

FORM = ("grad", "x", "weight")
"""The arguments in which the form of the map and the gradient that arrives is linear."""


def block_linear_backward_reference(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    blocks: Tensor,
    factors: Tensor,
    ir_mul: bool,
    by_x: bool,
    by_weight: bool,
) -> tuple[Tensor, Tensor]:
    """Return the two gradients; one that is not requested is empty, (0, 0)."""
    rows, matrices = in_groups(x, weight, factors.dtype)
    grads, _ = in_groups(grad, weight, factors.dtype)
    to_x, to_weight = torch.zeros_like(rows), torch.zeros_like(matrices)
    for block in read_blocks(blocks, factors):
        arriving = block.output(grads, ir_mul)
        if by_x:
            to_x = block.add_input(to_x, block.matrix(matrices) @ arriving, ir_mul)
        if by_weight:
            outer = torch.einsum("gruk,grwk->guw", block.input(rows, ir_mul), arriving)
            to_weight = block.add_matrix(to_weight, outer)
    none = x.new_empty(0, 0)
    return (
        to_x.flatten(0, 1).to(x.dtype) if by_x else none,
        to_weight.to(x.dtype) if by_weight else none,
    )


def _fake(x: Tensor, weight: Tensor, by_x: bool, by_weight: bool) -> tuple[Tensor, Tensor]:
    return (
        x.new_empty(x.shape if by_x else (0, 0)),
        x.new_empty(weight.shape if by_weight else (0, 0)),
    )


def _backward(
    to_x: Tensor | None = None,
    to_weight: Tensor | None = None,
    *,
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    by_x: bool,
    by_weight: bool,
    needed: set[str],
    **kept: Any,
) -> Gradients:
    # One form F(grad, x, weight), linear in each: its derivatives are the map and its gradients at
    # other points. By name, since the map refers to its gradients.
    table, ir_mul = (kept["blocks"], kept["factors"]), kept["ir_mul"]
    to_x, to_weight = to_x if by_x else None, to_weight if by_weight else None
    total: Gradients = {}
    if "grad" in needed:
        points = [(a, w) for a, w in ((to_x, weight), (x, to_weight)) if a is not None]
        parts = [
            declared("block_linear")(a, w, *table, grad.shape[1], ir_mul)
            for a, w in points
            if w is not None
        ]
        total["grad"] = sum(parts[1:], parts[0]) if parts else None
    if "x" in needed and to_weight is not None:
        total["x"] = block_linear_backward(grad, x, to_weight, *table, ir_mul, True, False)[0]
    if "weight" in needed and to_x is not None:
        total["weight"] = block_linear_backward(grad, to_x, weight, *table, ir_mul, False, True)[1]
    return total


block_linear_backward = declare(
    SCHEMA,
    reference=block_linear_backward_reference,
    fake=_fake,
    backward=_backward,
    forward=gradients_linear_in("block_linear_backward", FORM, ("by_x", "by_weight")),
    batch=rows_of_a_batch(FORM),
    bfloat16=FORM,
)
