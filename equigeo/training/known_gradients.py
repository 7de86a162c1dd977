"""Numbers whose gradients are known before a backward pass asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def known_gradients(value: Tensor, by: Sequence[Tensor], slopes: Sequence[Tensor]) -> Tensor:
    """Give a number the gradients that were computed together with it.

    Parameters
    ----------
    value : Tensor, ()
        Without a graph.
    by : sequence of Tensor
        What it was differentiated by.
    slopes : sequence of Tensor
        Its gradients, one of each shape.

    Returns
    -------
    Tensor, ()
        The number, differentiable once.

    Examples
    --------
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> known_gradients(torch.tensor(5.0), [x], [torch.tensor([2.0, 4.0])]).backward()
    >>> x.grad
    tensor([2., 4.])
    """
    result: Tensor = _Known.apply(value, *by, *slopes)
    return result


class _Known(torch.autograd.Function):
    """Behind the number comes what it depends on, and then as many gradients."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *given: Tensor) -> Tensor:
        ctx.save_for_backward(*given[len(given) // 2 :])
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor | None, ...]:
        slopes = [arriving[0] * slope for slope in ctx.saved_tensors]
        return (None, *slopes, *(None for _ in slopes))
