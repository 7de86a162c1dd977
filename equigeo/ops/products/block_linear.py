"""Linear map of rows that mixes the copies of each segment by a matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.products.block_linear_backward import block_linear_backward
from equigeo.ops.products.linear_blocks import COLUMNS, in_groups, read_blocks
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.batching import blocks as rows_of_a_batch
from equigeo.ops.runtime.checks import check_device, check_dtype, check_features, check_row
from equigeo.ops.runtime.declare import Gradients, declare
from equigeo.ops.runtime.forward_rules import linear_in
from equigeo.ops.runtime.storage import computed_in

SCHEMA = (
    "block_linear(Tensor x, Tensor weight, Tensor blocks, Tensor factors, int dim_out, "
    "bool ir_mul) -> Tensor"
)

OPERANDS = ("x", "weight")


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
        out = block.add_output(out, mixed, ir_mul)
    return out.flatten(0, 1).to(x.dtype)


def _backward(
    grad: Tensor, *, x: Tensor, weight: Tensor, dim_out: int, needed: set[str], **table: Any
) -> Gradients:
    asked = {name: name in needed for name in OPERANDS}
    found = block_linear_backward(grad, x, weight, *table.values(), *asked.values())
    return {name: to for name, to in zip(OPERANDS, found, strict=True) if asked[name]}


def _fake(x: Tensor, dim_out: int) -> Tensor:
    return x.new_empty(x.shape[0], check_row(dim_out))


block_linear_op = declare(
    SCHEMA,
    reference=block_linear_reference,
    fake=_fake,
    backward=_backward,
    forward=linear_in("block_linear", OPERANDS),
    batch=rows_of_a_batch(OPERANDS),
    bfloat16=OPERANDS,
)
