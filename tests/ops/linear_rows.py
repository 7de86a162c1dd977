"""Ops of the op table for linear maps by blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from equigeo.ops import block_linear
from equigeo.ops.products.block_linear import block_linear_reference
from equigeo.ops.products.block_linear_backward import (
    block_linear_backward,
    block_linear_backward_reference,
)
from tests.ops.op import Op, in_order
from tests.ops.problems import Problem

# Two segments into one, one into two, a gap in every row, more copies than a tile has rows.
BLOCKS = torch.tensor(
    [
        [1, 3, 0, 19, 1, 0],
        [4, 17, 0, 19, 1, 57],
        [21, 5, 19, 2, 3, 380],
        [21, 5, 27, 33, 3, 391],
        [36, 1, 126, 1, 5, 556],
        [41, 2, 131, 2, 7, 557],
    ]
)
FACTORS = torch.tensor([0.5, -1.0, 2.0, 0.25, 1.0, 3.0], dtype=torch.float64)
DIM, WEIGHTS, DIM_OUT = 56, 562, 146


def linear_rows() -> Iterator[Op]:
    for ir_mul in (False, True):
        for label, groups in (("shared weights", one_group), ("weights of rows", a_group_a_row)):
            yield map_row(label, groups, ir_mul)
            yield backward_row(label, groups, ir_mul, True, True)
    yield backward_row("by x alone", one_group, False, True, False)
    yield backward_row("by weights alone", a_group_a_row, True, False, True)


def one_group(problem: Problem) -> int:
    return 1


def a_group_a_row(problem: Problem) -> int:
    return problem.edges


def operands(
    groups: Callable[[Problem], int], *, grad: bool
) -> Callable[[Problem, torch.dtype], list[Tensor]]:
    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        shapes = [("x", problem.edges, DIM), ("weight", groups(problem), WEIGHTS)]
        if grad:
            shapes.insert(0, ("grad", problem.edges, DIM_OUT))
        return [problem.randn(name, rows, dim, dtype=dtype) for name, rows, dim in shapes]

    return features


def map_row(label: str, groups: Callable[[Problem], int], ir_mul: bool) -> Op:
    def call(x: Tensor, weight: Tensor, blocks: Tensor, factors: Tensor) -> Tensor:
        return block_linear(x, weight, blocks, factors, DIM_OUT, ir_mul=ir_mul)

    def judge(*arguments: Tensor) -> Tensor:
        out: Tensor = in_order(block_linear_reference)(*arguments, DIM_OUT, ir_mul)
        return out

    return Op(
        "block_linear",
        call,
        judge,
        operands(groups, grad=False),
        lambda graph: [BLOCKS, FACTORS],
        f"block_linear, {label}, {'ir_mul' if ir_mul else 'mul_ir'}",
        constants=(DIM_OUT, ir_mul),
    )


def backward_row(
    label: str, groups: Callable[[Problem], int], ir_mul: bool, by_x: bool, by_weight: bool
) -> Op:
    constants = (ir_mul, by_x, by_weight)

    def call(*arguments: Tensor) -> tuple[Tensor, Tensor]:
        gradients: tuple[Tensor, Tensor] = block_linear_backward(*arguments, *constants)
        return gradients

    def judge(*arguments: Tensor) -> tuple[Tensor, Tensor]:
        judged = in_order(block_linear_backward_reference)
        found: tuple[Tensor, Tensor] = judged(*arguments, *constants)
        return found

    return Op(
        "block_linear_backward",
        call,
        judge,
        operands(groups, grad=True),
        lambda graph: [BLOCKS, FACTORS],
        f"block_linear_backward, {label}, {'ir_mul' if ir_mul else 'mul_ir'}",
        constants=constants,
    )
