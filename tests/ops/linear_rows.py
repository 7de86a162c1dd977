"""Ops of the op table for linear maps by blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Blocks:
    """The blocks of a map, and the lengths of its rows; sums have ``terms`` terms, of each row."""

    blocks: Tensor
    factors: Tensor
    dim: int
    weights: int
    dim_out: int
    terms: int = 1


# Two segments into one, one into two, a gap in every row, more copies than a tile has rows.
SMALL = Blocks(
    torch.tensor(
        [
            [1, 3, 0, 19, 1, 0],
            [4, 17, 0, 19, 1, 57],
            [21, 5, 19, 2, 3, 380],
            [21, 5, 27, 33, 3, 391],
            [36, 1, 126, 1, 5, 556],
            [41, 2, 131, 2, 7, 557],
        ]
    ),
    torch.tensor([0.5, -1.0, 2.0, 0.25, 1.0, 3.0], dtype=torch.float64),
    dim=56,
    weights=562,
    dim_out=146,
)
# More copies, and more components, than a tile of any kernel has; more tiles of the input than of
# the output.
LARGE = Blocks(
    torch.tensor([[1, 131, 0, 3, 1, 1], [133, 2, 3, 1, 65, 394]]),
    torch.tensor([0.5, 2.0], dtype=torch.float64),
    dim=263,
    weights=396,
    dim_out=69,
    terms=131,
)
NONE = Blocks(
    torch.empty(0, 6, dtype=torch.int64),
    torch.empty(0, dtype=torch.float64),
    dim=3,
    weights=2,
    dim_out=4,
)
# So little that there may be many rows.
LITTLE = Blocks(
    torch.tensor([[0, 2, 0, 1, 1, 0]]), torch.ones(1, dtype=torch.float64), 2, weights=2, dim_out=1
)


def linear_rows() -> Iterator[Op]:
    for ir_mul in (False, True):
        for label, groups in (("shared weights", one_group), ("weights of rows", a_group_a_row)):
            yield map_row(label, SMALL, groups, ir_mul)
            yield backward_row(label, SMALL, groups, ir_mul)
        yield map_row("large blocks", LARGE, one_group, ir_mul)
        yield backward_row("large blocks", LARGE, one_group, ir_mul)
    yield map_row("no blocks", NONE, one_group, False)
    yield backward_row("no blocks", NONE, one_group, False)
    # More rows than are summed in one part.
    yield backward_row("many rows", LITTLE, one_group, False, repeats=30)
    yield backward_row("by x alone", SMALL, one_group, False, by_weight=False)
    yield backward_row("by weights alone", SMALL, a_group_a_row, True, by_x=False)


def one_group(problem: Problem) -> int:
    return 1


def a_group_a_row(problem: Problem) -> int:
    return problem.edges


def operands(
    of: Blocks, groups: Callable[[Problem], int], *, grad: bool, repeats: int = 1
) -> Callable[[Problem, torch.dtype], list[Tensor]]:
    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        rows = problem.edges * repeats
        shapes = [("x", rows, of.dim), ("weight", groups(problem), of.weights)]
        if grad:
            shapes.insert(0, ("grad", rows, of.dim_out))
        return [problem.randn(name, rows, dim, dtype=dtype) for name, rows, dim in shapes]

    return features


def map_row(label: str, of: Blocks, groups: Callable[[Problem], int], ir_mul: bool) -> Op:
    def call(x: Tensor, weight: Tensor, blocks: Tensor, factors: Tensor) -> Tensor:
        return block_linear(x, weight, blocks, factors, of.dim_out, ir_mul=ir_mul)

    def judge(*arguments: Tensor) -> Tensor:
        out: Tensor = in_order(block_linear_reference)(*arguments, of.dim_out, ir_mul)
        return out

    return Op(
        "block_linear",
        call,
        judge,
        operands(of, groups, grad=False),
        lambda graph: [of.blocks, of.factors],
        f"block_linear, {label}, {'ir_mul' if ir_mul else 'mul_ir'}",
        terms=of.terms,
        constants=(of.dim_out, ir_mul),
    )


def backward_row(
    label: str,
    of: Blocks,
    groups: Callable[[Problem], int],
    ir_mul: bool,
    *,
    by_x: bool = True,
    by_weight: bool = True,
    repeats: int = 1,
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
        operands(of, groups, grad=True, repeats=repeats),
        lambda graph: [of.blocks, of.factors],
        f"block_linear_backward, {label}, {'ir_mul' if ir_mul else 'mul_ir'}",
        terms=of.terms,
        constants=constants,
    )
