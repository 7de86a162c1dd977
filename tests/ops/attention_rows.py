"""Ops of the op table for convolutions by attention."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import attention_conv
from equigeo.ops.segments.attention_conv import attention_conv_reference
from equigeo.ops.segments.attention_conv_backward import (
    attention_conv_backward,
    attention_conv_backward_reference,
)
from tests.ops.op import Op, in_order
from tests.ops.problems import Problem

WIDTHS = {"one channel, one head": 1, "odd sizes": 19, "full registers": 64, "no channels": 0}
"""Channels out of a head, by problem; of the others, 16, which are written where they belong."""

NODES = 3000
"""Rows that a gradient of a matrix sums over, at most: those of the largest problem."""


def _graph(edges: EdgeIndex) -> list[Tensor]:
    return [edges.source, edges.ptr, edges.target, edges.back_order, edges.back_ptr]


def _nodes(sources: int, targets: int, square: bool) -> tuple[int, int]:
    return (max(sources, targets),) * 2 if square else (sources, targets)


def _lists(square: bool) -> Callable[[EdgeIndex], list[Tensor]]:
    def lists(edges: EdgeIndex) -> list[Tensor]:
        nodes = _nodes(edges.num_sources, edges.num_targets, square)
        return _graph(EdgeIndex.from_edges(edges.edge_index, *nodes))

    return lists


def _matrices(problem: Problem, dtype: torch.dtype, square: bool) -> list[Tensor]:
    shape = problem.heads * WIDTHS.get(problem.name, 16), problem.channels
    names = ("weight", "self_weight") if square else ("weight",)
    scale = max(1, problem.channels) ** -0.5
    return [scale * problem.randn(name, *shape, dtype=dtype) for name in names]


def _forward(square: bool) -> Callable[[Problem, torch.dtype], list[Tensor]]:
    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        p = problem
        sources, _ = _nodes(p.sources, p.targets, square)
        return [
            p.randn("x", sources, p.channels, dtype=dtype),
            p.randn("logits", p.edges, p.heads, dtype=dtype),
            *_matrices(p, dtype, square),
        ]

    return features


def _backward(
    square: bool, of_attention: bool = True
) -> Callable[[Problem, torch.dtype], list[Tensor]]:
    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        p = problem
        sources, targets = _nodes(p.sources, p.targets, square)
        matrices = _matrices(p, dtype, square)
        return [
            p.randn("grad_out", targets, matrices[0].shape[0], dtype=dtype),
            *([p.randn("grad_attention", p.edges, p.heads, dtype=dtype)] if of_attention else []),
            p.randn("x", sources, p.channels, dtype=dtype),
            p.randn("attention", p.edges, p.heads, dtype=dtype).sigmoid(),
            *matrices,
        ]

    return features


def _without(function: Callable[..., object], position: int) -> Callable[..., object]:
    return lambda *given: function(*given[:position], None, *given[position:])


def attention_rows() -> list[Op]:
    """Rows with and without matrices for the targets themselves."""
    forward, backward = attention_conv, attention_conv_backward
    reference = in_order(attention_conv_reference)
    backward_reference = in_order(attention_conv_backward_reference)

    def of_sources(function: Callable[..., tuple[Tensor, ...]]) -> Callable[..., object]:
        return lambda *given: _without(function, 5)(*given)[:3]  # no gradient of what is missing

    # Second gradients are those of the reference, made of matrix products.
    return [
        Op(
            "attention_conv", forward, reference, _forward(True), _lists(True), terms=256,
            blas=True,
        ),
        Op(
            "attention_conv", _without(forward, 3), _without(reference, 3), _forward(False),
            _lists(False), label="attention_conv of sources alone", missing=(3,), terms=256,
            blas=True,
        ),
        Op(
            "attention_conv_backward", backward, backward_reference, _backward(True),
            _lists(True), terms=NODES, blas=True,
        ),
        Op(
            "attention_conv_backward", _without(backward, 1), _without(backward_reference, 1),
            _backward(True, of_attention=False), _lists(True),
            label="attention_conv_backward of the results alone", missing=(1,), terms=NODES,
            blas=True,
        ),
        Op(
            "attention_conv_backward", of_sources(backward), of_sources(backward_reference),
            _backward(False), _lists(False), label="attention_conv_backward of sources alone",
            missing=(5,), terms=NODES, blas=True,
        ),
    ]  # fmt: skip
