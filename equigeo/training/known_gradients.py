"""Scalars with precomputed gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def known_gradients(
    value: Tensor,  # scalar without graph
    by: Sequence[Tensor],  # tensors that it depends on
    slopes: Sequence[Tensor],  # gradient of each
) -> Tensor:
    """Attach precomputed gradients to a scalar, which becomes differentiable once."""
    result: Tensor = _Known.apply(value, *by, *slopes)
    return result


class _Known(torch.autograd.Function):
    """Autograd function of a scalar, its inputs and as many gradients."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *given: Tensor) -> Tensor:
        ctx.save_for_backward(*given[len(given) // 2 :])
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor | None, ...]:
        slopes = [arriving[0] * slope for slope in ctx.saved_tensors]
        return (None, *slopes, *(None for _ in slopes))
