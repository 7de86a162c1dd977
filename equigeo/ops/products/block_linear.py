"""Linear map of rows that mixes the copies of each segment by a matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_dtype, check_features
from equigeo._core.tensors import computed_in, computes_in_float32
from equigeo.ops.products.multilinear import fake_product
from equigeo.ops.runtime.batching import blocks as rows_of_a_batch
from equigeo.ops.runtime.declare import declare, declared, like
from equigeo.ops.runtime.forward_rules import gradients_linear_in, linear_in
from equigeo.ops.runtime.tape import Gradients

COLUMNS = 6

OPERANDS = ("x", "weight")

FORM = ("grad", "x", "weight")
"""The arguments in which the form of the map and the gradient that arrives is linear."""

SCHEMA = (
    "block_linear(Tensor x, Tensor weight, Tensor blocks, Tensor factors, int dim_out, "
    "bool ir_mul) -> Tensor"
)


@computes_in_float32
def block_linear(
    x: Tensor, weight: Tensor, blocks: Tensor, factors: Tensor, dim_out: int, *, ir_mul: bool
) -> Tensor:
    r"""Mix the copies of each segment of ``x`` into those of a segment of the output.

    .. math:: z_{wk} \mathrel{+}= f \sum_u W_{uw}\, x_{uk}

    for every block, with its matrix W and its factor f: the general form of an equivariant linear
    map by Schur's lemma. Returns a tensor (groups * rows, dim_out).

    Parameters
    ----------
    x : Tensor, (groups * rows, components)
        Features, in as many groups of equally many rows as there are rows of weights.
    weight : Tensor, (groups, weights)
        Matrices (mul, mul_out) of all blocks, for each group.
    blocks : Tensor, (blocks, 6), int64
        Offset and copies of the segment of ``x``, the same of the segment of the output, components
        of both, and the offset of the matrix. Segments of the output are equal or disjoint, and so
        are those of ``x`` and matrices where gradients are computed. Blocks outside of their rows
        raise ``RuntimeError`` on the CPU with kernels; kernels of CUDA stop with a trap.
    factors : Tensor, (blocks,)
        Factor of each block.
    dim_out : int
        Length of the output's rows.
    ir_mul : bool
        Whether segments have components outside.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 2, 3, 10, 20, 30]])  # two vectors
    >>> sum_of_both = torch.tensor([[0, 2, 0, 1, 3, 0]])
    >>> block_linear(x, torch.ones(1, 2), sum_of_both, torch.ones(1), 3, ir_mul=False)
    tensor([[11., 22., 33.]])
    """
    for name, tensor in (("x", x), ("weight", weight)):
        check_features(name, tensor, ("rows", "components"))
        check_dtype(name, tensor, "x", x)
    groups, count = weight.shape[0], blocks.shape[0] if blocks.ndim else 0
    if blocks.dtype != torch.int64 or tuple(blocks.shape) != (count, COLUMNS):
        raise ValueError(f"blocks must be (blocks, 6), int64, got {tuple(blocks.shape)}")
    if tuple(factors.shape) != (count,):
        raise ValueError(f"factors must be ({count},) to fit blocks, got {tuple(factors.shape)}")
    if x.shape[0] % groups if groups else x.shape[0]:
        raise ValueError(f"the {x.shape[0]} rows of x must be in {groups} equal groups, as weight")
    check_device(x=x, weight=weight, blocks=blocks, factors=factors)
    factors = factors.to(computed_in(x.dtype))
    return block_linear_op(x, weight, blocks, factors, dim_out, ir_mul)


def block_linear_reference(
    x: Tensor, weight: Tensor, blocks: Tensor, factors: Tensor, dim_out: int, ir_mul: bool
) -> Tensor:
    """Reference implementation of :func:`block_linear`, differentiable by PyTorch alone."""
    rows, matrices = in_groups(x, weight, factors.dtype)
    out = rows.new_zeros(*rows.shape[:-1], dim_out)
    for block in read_blocks(blocks, factors):
        mixed = block.matrix(matrices).mT @ block.input(rows, ir_mul)
        out = _add(out, block.out, mixed.mT if ir_mul else mixed)
    return out.flatten(0, 1).to(x.dtype)


class LinearBlock(NamedTuple):
    """One row of the argument ``blocks``, with its factor."""

    x: int  # offset of the input segment
    mul: int  # copies of the input segment
    out: int  # offset of the output segment
    mul_out: int  # copies of the output segment
    d: int  # components of both
    weight: int  # offset of the (mul, mul_out) matrix
    factor: Tensor  # scalar multiplier of the matrix

    def matrix(self, weight: Tensor) -> Tensor:
        """Return matrices (groups, 1, mul, mul_out) from weights (groups, weights)."""
        flat = weight.narrow(-1, self.weight, self.mul * self.mul_out)
        return self.factor * flat.unflatten(-1, (1, self.mul, self.mul_out))

    def input(self, rows: Tensor, ir_mul: bool) -> Tensor:
        """Return the input segment, (..., mul, d)."""
        return _segment(rows, self.x, self.mul, self.d, ir_mul)

    def output(self, rows: Tensor, ir_mul: bool) -> Tensor:
        """Return the output segment, (..., mul_out, d)."""
        return _segment(rows, self.out, self.mul_out, self.d, ir_mul)


def read_blocks(
    blocks: Tensor,  # (blocks, 6), int64
    factors: Tensor,  # (blocks,)
) -> list[LinearBlock]:
    """Return one block per row of ``blocks``."""
    rows = zip(blocks.tolist(), factors, strict=True)
    return [LinearBlock._make([*numbers, factor]) for numbers, factor in rows]


def in_groups(
    x: Tensor,  # (groups * rows, components)
    weight: Tensor,  # (groups, weights)
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:  # (groups, rows, components), (groups, weights)
    """Split rows into the groups that share weights, and cast both to the compute dtype."""
    groups = weight.shape[0]
    each = x.shape[0] // groups if groups else 0
    return x.to(dtype).reshape(groups, each, x.shape[1]), weight.to(dtype)


def _segment(rows: Tensor, offset: int, mul: int, d: int, ir_mul: bool) -> Tensor:
    part = rows.narrow(-1, offset, mul * d)
    return part.unflatten(-1, (d, mul)).mT if ir_mul else part.unflatten(-1, (mul, d))


def _add(rows: Tensor, offset: int, part: Tensor) -> Tensor:
    """Add a part with two axes to a segment of the last axis, out of place."""
    part = part.flatten(-2)
    size = part.shape[-1]
    before, behind = rows[..., :offset], rows[..., offset + size :]
    return torch.cat([before, rows.narrow(-1, offset, size) + part, behind], dim=-1)


def _backward(
    grad: Tensor, *, x: Tensor, weight: Tensor, dim_out: int, needed: set[str], **table: Any
) -> Gradients:
    asked = {name: name in needed for name in OPERANDS}
    found = block_linear_backward(grad, x, weight, *table.values(), *asked.values())
    return {name: to for name, to in zip(OPERANDS, found, strict=True) if asked[name]}


BACKWARD_SCHEMA = (
    "block_linear_backward(Tensor grad, Tensor x, Tensor weight, Tensor blocks, Tensor factors, "
    "bool ir_mul, bool by_x, bool by_weight) -> (Tensor, Tensor)"
)


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
            part = block.matrix(matrices) @ arriving
            to_x = _add(to_x, block.x, part.mT if ir_mul else part)
        if by_weight:
            outer = torch.einsum("gruk,grwk->guw", block.input(rows, ir_mul), arriving)
            to_weight = _add(to_weight, block.weight, block.factor * outer)
    none = x.new_empty(0, 0)
    return (
        to_x.flatten(0, 1).to(x.dtype) if by_x else none,
        to_weight.to(x.dtype) if by_weight else none,
    )


def _double_backward(
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
    BACKWARD_SCHEMA,
    reference=block_linear_backward_reference,
    fake=like("x", "weight", flags=("by_x", "by_weight")),
    backward=_double_backward,
    forward=gradients_linear_in("block_linear_backward", FORM, ("by_x", "by_weight")),
    batch=rows_of_a_batch(FORM),
    bfloat16=FORM,
)

block_linear_op = declare(
    SCHEMA,
    reference=block_linear_reference,
    fake=fake_product,
    backward=_backward,
    forward=linear_in("block_linear", OPERANDS),
    batch=rows_of_a_batch(OPERANDS),
    bfloat16=OPERANDS,
)
