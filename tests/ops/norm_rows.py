"""Ops of the op table for norms."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from equigeo.ops import relu_batch_norm
from equigeo.ops.norms.relu_batch_norm import relu_batch_norm_reference
from equigeo.ops.norms.relu_batch_norm_backward import (
    relu_batch_norm_backward,
    relu_batch_norm_backward_reference,
)
from tests.ops.op import Op, in_order
from tests.ops.problems import Problem

EPS = 0.1  # a channel of one positive number has little variance


def _features(*, backward: bool, added: bool) -> Callable[[Problem, torch.dtype], list[Tensor]]:
    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        rows = [*["grad_out"] * backward, "x", *["added"] * added]
        shape = problem.sources, problem.channels
        matrices = [problem.randn(name, *shape, dtype=dtype) for name in rows]
        vectors = ("weight", "bias")
        return matrices + [problem.randn(n, problem.channels, dtype=dtype) for n in vectors]

    return features


def _with(
    function: Callable[..., tuple[Tensor, ...]],
    constants: tuple[float, bool],
    missing: int | None,
    results: int,
) -> Callable[..., object]:
    def call(*given: Tensor) -> object:
        features: list[Tensor | None] = list(given)
        if missing is not None:
            features.insert(missing, None)
        found = function(*features, *constants)[:results]
        return found if results > 1 else found[0]

    return call


def norm_rows() -> list[Op]:
    """Rows with and without a second summand, rectified at the end or not."""
    rows = []
    for name, function, reference in (
        ("relu_batch_norm", relu_batch_norm, relu_batch_norm_reference),
        (
            "relu_batch_norm_backward", relu_batch_norm_backward,
            relu_batch_norm_backward_reference,
        ),
    ):  # fmt: skip
        backward = name.endswith("backward")
        results = 3 if backward else 1  # statistics have no gradients, and a test of their own
        for rectify in (True, False):  # a sum in one, rows alone in the other
            constants = (EPS, rectify)
            missing = None if rectify else 1 + backward
            rows.append(
                Op(
                    name,
                    _with(function, constants, missing, results),
                    _with(in_order(reference), constants, missing, results),
                    _features(backward=backward, added=rectify),
                    lambda _: [],
                    label=f"{name}, {'of a sum, rectified' if rectify else 'of rows'}",
                    missing=() if missing is None else (missing,),
                    constants=constants,
                    terms=3000,
                )
            )
    return rows
