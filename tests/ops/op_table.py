"""One row per compiled op; every test of ``test_ops.py`` runs on every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import gather_sum, grid_product, segment_attention
from equigeo.ops.segments.gather_sum import gather_sum_reference
from equigeo.ops.segments.segment_attention import segment_attention_reference
from equigeo.ops.segments.segment_attention_backward import (
    segment_attention_backward,
    segment_attention_backward_reference,
)
from equigeo.ops.sphere.grid_product import grid_product_reference
from tests.ops.attention_rows import attention_rows
from tests.ops.channelwise_rows import channelwise_rows
from tests.ops.cloud_rows import cloud_rows
from tests.ops.connected_rows import connected_rows
from tests.ops.contraction_rows import contraction_rows
from tests.ops.double_backward_rows import (
    double_backward_rows,
    double_backward_rows_of_kernels,
)
from tests.ops.harmonics_rows import harmonics_rows
from tests.ops.linear_rows import linear_rows
from tests.ops.norm_rows import norm_rows
from tests.ops.op import Op, in_order
from tests.ops.problems import Problem
from tests.ops.so2_rows import so2_rows, so2_rows_of_kernels


def _graph(edges: EdgeIndex) -> list[Tensor]:
    return [edges.source, edges.ptr, edges.target, edges.back_order, edges.back_ptr]


def _rows(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
    return [problem.randn("x", problem.sources, problem.channels, dtype=dtype)]


def _values_and_logits(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
    p = problem
    return [
        p.randn("values", p.sources, p.heads, p.channels, dtype=dtype),
        p.randn("logits", p.edges, p.heads, dtype=dtype),
    ]


def _gradients(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
    p = problem
    return [
        p.randn("grad_out", p.targets, p.heads, p.channels, dtype=dtype),
        p.randn("grad_attention", p.edges, p.heads, dtype=dtype),
        p.randn("values", p.sources, p.heads, p.channels, dtype=dtype),
        p.randn("attention", p.edges, p.heads, dtype=dtype).sigmoid(),
    ]


def _coefficients(lmax_x: int, lmax_y: int) -> Callable[..., list[Tensor]]:
    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        shapes = {"x": (lmax_x + 1) ** 2, "y": (lmax_y + 1) ** 2}
        return [problem.randn(name, problem.sources, d, dtype=dtype) for name, d in shapes.items()]

    return features


def _tables(
    *degrees: int, grid: tuple[int, int], summands: tuple[int, int, int] = (1, 1, 1)
) -> Callable[[EdgeIndex], list[Tensor]]:
    """Any numbers will do: the op does not know what the tables stand for."""
    tables = []
    for lmax, count in zip(degrees, summands, strict=True):
        for size, points in (((lmax + 1) ** 2, grid[0]), (2 * lmax + 1, grid[1])):
            numbers = torch.arange(count * size * points, dtype=torch.float64)
            tables.append((numbers + size).sin().view(count, size, points))
    return lambda graph: tables


def _without_second(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda first, *others: function(first, None, *others)


def _gradients_without_second(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
    first, _, *others = _gradients(problem, dtype)
    return [first, *others]


OPS = [
    Op(
        "gather_sum",
        gather_sum,
        gather_sum_reference,
        _rows,
        lambda g: [g.source, g.ptr, g.back_target, g.back_ptr],
    ),
    Op(
        "segment_attention",
        segment_attention,
        segment_attention_reference,
        _values_and_logits,
        _graph,
    ),
    Op(
        "segment_attention_backward",
        segment_attention_backward,
        in_order(segment_attention_backward_reference),
        _gradients,
        _graph,
    ),
    Op(
        "segment_attention_backward",
        _without_second(segment_attention_backward),
        _without_second(in_order(segment_attention_backward_reference)),
        _gradients_without_second,
        _graph,
        label="segment_attention_backward of the averages alone",
        missing=(1,),
    ),
    Op(
        "grid_product",
        grid_product,
        in_order(grid_product_reference),
        _coefficients(2, 1),
        _tables(2, 1, 3, grid=(4, 7)),
        terms=4 * 7,
    ),
    Op(
        "grid_product",
        grid_product,
        in_order(grid_product_reference),
        _coefficients(1, 2),
        _tables(1, 2, 0, grid=(3, 5), summands=(2, 2, 1)),
        label="grid_product of gradients",
        terms=2 * 3 * 5,
    ),
    Op(
        "grid_product",
        grid_product,
        in_order(grid_product_reference),
        _coefficients(0, 1),
        _tables(0, 1, 8, grid=(29, 57), summands=(1, 2, 2)),
        label="grid_product in two stages",
        terms=2 * 29 * 57,
    ),
    Op(
        "grid_product",
        grid_product,
        in_order(grid_product_reference),
        _coefficients(77, 0),
        _tables(77, 0, 4, grid=(2, 3)),
        label="grid_product of more coefficients than are staged",
        terms=2 * 3 * 78,
    ),
    *attention_rows(),
    *channelwise_rows(),
    *cloud_rows(),
    *connected_rows(),
    *double_backward_rows(),
    *double_backward_rows_of_kernels(),
    *contraction_rows(),
    *harmonics_rows(),
    *linear_rows(),
    *norm_rows(),
    *so2_rows(),
    *so2_rows_of_kernels(),
]

OF_KERNELS = frozenset(
    {
        "grid_product of more coefficients than are staged",
        "channelwise_product, long",
        "channelwise_product_backward, long",
        "channelwise_product, even",
        "channelwise_product_backward, full",
        "channelwise_conv, many",
        "channelwise_conv_backward, by turns",
        "channelwise_product_backward, gap",
        "channelwise_product, batch",
        "channelwise_product, no paths",
        "channelwise_product_backward, no paths",
        "radial_conv, many hidden numbers",
        "principal_axes of stray points",
        "copywise_product, overlapping",
        "copywise_product_backward, overlapping",
        "fully_connected_product, many pairs",
        "fully_connected_product_backward, many pairs",
        "symmetric_contraction_backward, one block, many rows",
        f"spherical_harmonics of degrees {list(range(15))}, unit length",
        "block_linear, no blocks, mul_ir",
        "block_linear_backward, no blocks, mul_ir",
        "block_linear_backward, many rows, mul_ir",
        *map(str, double_backward_rows_of_kernels()),
        *map(str, so2_rows_of_kernels()),
    }
)
"""Rows of sizes, none among them, and of orders of paths that kernels alone notice."""

OF_PYTORCH = [op for op in OPS if str(op) not in OF_KERNELS]
"""Rows with which modes are tried, and what PyTorch demands of an op."""
