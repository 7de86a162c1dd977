"""The two gradients of a linear map by blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.ops.products.linear_blocks import in_groups, read_blocks
from equigeo.ops.runtime.batching import blocks as rows_of_a_batch
from equigeo.ops.runtime.declare import Gradients, declare, declared, like
from equigeo.ops.runtime.forward_rules import gradients_linear_in

SCHEMA = (
    "block_linear_backward(Tensor grad, Tensor x, Tensor weight, Tensor blocks, Tensor factors, "
    "bool ir_mul) -> (Tensor, Tensor)"
)

FORM = ("grad", "x", "weight")
"""The arguments in which the form of the map and the gradient that arrives is linear."""


def block_linear_backward_reference(
    grad: Tensor, x: Tensor, weight: Tensor, blocks: Tensor, factors: Tensor, ir_mul: bool
) -> tuple[Tensor, Tensor]:
    """Reference implementation of the op, differentiable by PyTorch alone."""
    rows, matrices = in_groups(x, weight, factors.dtype)
    grads, _ = in_groups(grad, weight, factors.dtype)
    to_x, to_weight = torch.zeros_like(rows), torch.zeros_like(matrices)
    for block in read_blocks(blocks, factors):
        arriving = block.output(grads, ir_mul)
        to_x = block.add_input(to_x, block.matrix(matrices) @ arriving, ir_mul)
        outer = torch.einsum("gruk,grwk->guw", block.input(rows, ir_mul), arriving)
        to_weight = block.add_matrix(to_weight, outer)
    return to_x.flatten(0, 1).to(x.dtype), to_weight.to(x.dtype)


def _backward(  # noqa: PLR0913 - all by name
    to_x: Tensor | None = None,
    to_weight: Tensor | None = None,
    *,
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    blocks: Tensor,
    factors: Tensor,
    ir_mul: bool,
    needed: set[str],
) -> Gradients:
    # One form F(grad, x, weight), linear in each: its derivatives are the map and its gradients at
    # other points. By name, since the map refers to its gradients.
    table = (blocks, factors)
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
        total["x"] = block_linear_backward(grad, x, to_weight, *table, ir_mul)[0]
    if "weight" in needed and to_x is not None:
        total["weight"] = block_linear_backward(grad, to_x, weight, *table, ir_mul)[1]
    return total


block_linear_backward = declare(
    SCHEMA,
    reference=block_linear_backward_reference,
    fake=like("x", "weight"),
    backward=_backward,
    forward=gradients_linear_in("block_linear_backward", FORM),
    batch=rows_of_a_batch(FORM),
    bfloat16=FORM,
)
