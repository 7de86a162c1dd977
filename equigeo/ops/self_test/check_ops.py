"""Comparison of every op on a device with its reference implementation."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import torch

from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.ops.runtime.load_kernels import loaded_library, runs_compiled
from equigeo.ops.self_test.cases import (
    EDGES,
    NODES,
    Case,
    all_cases,
    double_backward_cases,
    draw_features,
    example_graph,
)
from equigeo.ops.self_test.compare import worst_deviation


@dataclass(frozen=True)
class OpCheck:
    """Result of comparing one op with its reference implementation.

    ``state`` is ``"passed"``, ``"failed"`` or, without a kernel, ``"reference only"``. ``text`` has
    the error that comes closest to its tolerance, or the failure; ``seconds`` is the duration.

    Examples
    --------
    >>> OpCheck("gather_sum", "reference only", "no kernel for this device", 0.0).state
    'reference only'
    """

    op: str
    state: Literal["passed", "failed", "reference only"]
    text: str
    seconds: float


def check_ops(device: torch.device | str = "cpu") -> list[OpCheck]:
    """Compare the kernel of every op with its reference implementation on small problems.

    Values in every dtype of the kernels, first and second gradients in float64. Returns one
    :class:`OpCheck` per op, by name.

    Examples
    --------
    >>> {found.state for found in check_ops()} <= {"passed", "reference only"}
    True
    """
    where = torch.device(device)
    cases = {case.op: case for case in [*all_cases(), *_cpu_cases()]}
    return [_check(op, cases.get(op), where) for op in sorted(SCHEMAS)]


def _check(op: str, case: Case | None, device: torch.device) -> OpCheck:
    has_library = loaded_library(device.type) is not None
    if case is None or not has_library or not runs_compiled(op, device):
        return OpCheck(op, "reference only", "no kernel for this device", 0.0)
    start = time.perf_counter()
    try:
        found = worst_deviation(case, device)
        state: Literal["passed", "failed"] = "passed" if found.is_tolerated else "failed"
        text = str(found)
    except RuntimeError as error:
        state, text = "failed", f"{op}: {' '.join(str(error).split())}"
    return OpCheck(op, state, text, round(time.perf_counter() - start, 3))


def _cpu_cases() -> list[Case]:
    """Return the cases of the ops that have kernels for the CPU only."""
    return [*double_backward_cases(), *_attention_cases(), *_norm_cases()]


def _attention_cases() -> list[Case]:
    graph, heads, width, out = example_graph(), 2, 5, 6
    rest = (graph.source, graph.ptr, graph.target, graph.back_order, graph.back_ptr)
    shapes = ((NODES, width), (EDGES, heads), (out, width), (out, width))
    x, logits, weight, self_weight = draw_features(*shapes)
    grad, grad_attention = draw_features((NODES, out), (EDGES, heads))
    attention = logits.sigmoid().bfloat16().double()
    backward = (grad, grad_attention, x, attention, weight, self_weight)
    return [
        Case("attention_conv", (x, logits, weight, self_weight), rest),
        Case("attention_conv_backward", backward, rest),
    ]


def _norm_cases() -> list[Case]:
    rows, channels, rest = EDGES, 5, (0.1, True)
    x, added, grad = draw_features(*3 * ((rows, channels),))
    weight, bias = draw_features((channels,), (channels,))
    return [
        Case("relu_batch_norm", (x, added, weight, bias), rest, differentiable=1),
        Case("relu_batch_norm_backward", (grad, x, added, weight, bias), rest),
    ]
