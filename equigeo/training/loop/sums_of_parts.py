"""The loss of a batch whose parts are run one after the other: accumulated gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from equigeo.training.labelled_source import AnyBatch
from equigeo.training.objective import Objective


def sums_of_parts(objective: Objective, model: nn.Module, batch: AnyBatch) -> tuple[Tensor, Tensor]:
    """Run the model on each part of a batch; what a part needs is given back before the next.

    Gradients of a part are taken at once, and what is returned has their sum as its gradient. A
    batch norm normalises each part by itself.

    Parameters
    ----------
    objective : Objective
        What to run.
    model : torch.nn.Module
        In training mode.
    batch : LabelledBatch or DividedBatch
        One part or more.

    Returns
    -------
    loss, measure : Tensor, ()
        Sums over the samples, as of :meth:`Objective.sums`.
    """
    if len(batch.parts) == 1:
        return objective.sums(model, batch.parts[0])
    parameters = [p for p in model.parameters() if p.requires_grad]
    slopes: list[Tensor | None] = [None] * len(parameters)
    losses, measures = [], []
    for part in batch.parts:
        loss, measure = objective.sums(model, part)
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        slopes = [_plus(a, b) for a, b in zip(slopes, found, strict=True)]
        losses.append(loss.detach())
        measures.append(measure.detach())
    reached = [(p, g) for p, g in zip(parameters, slopes, strict=True) if g is not None]
    given = [tensor for pair in zip(*reached, strict=True) for tensor in pair]
    total: Tensor = _WithGradients.apply(torch.stack(losses).sum(), *given)
    return total, torch.stack(measures).sum()


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return a if b is None else b
    return a + b


class _WithGradients(torch.autograd.Function):
    """A number whose gradients by parameters, the first half of the others, are known already."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *given: Tensor) -> Tensor:
        ctx.save_for_backward(*given[len(given) // 2 :])
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor | None, ...]:
        slopes = [arriving[0] * slope for slope in ctx.saved_tensors]
        return (None, *slopes, *(None for _ in slopes))
