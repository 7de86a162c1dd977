"""Gradient accumulation over the parts of a batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo.training.known_gradients import known_gradients
from equigeo.training.labelled_source import AnyBatch
from equigeo.training.objective import Objective


def sums_of_parts(
    objective: Objective,
    model: nn.Module,  # in training mode
    batch: AnyBatch,
) -> tuple[Tensor, Tensor]:
    """Sum loss and measure over the parts of a batch, with accumulated gradients."""
    if len(batch.parts) == 1:
        return objective.sums(model, batch.parts[0])
    parameters = [p for p in model.parameters() if p.requires_grad]
    slopes: list[Tensor | None] = [None] * len(parameters)
    losses, measures = [], []
    # Batch norms normalise each part separately. Its memory is freed before the next.
    for part in batch.parts:
        loss, measure = objective.sums(model, part)
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        slopes = [_plus(a, b) for a, b in zip(slopes, found, strict=True)]
        losses.append(loss.detach())
        measures.append(measure.detach())
    reached = [(p, g) for p, g in zip(parameters, slopes, strict=True) if g is not None]
    total = known_gradients(
        torch.stack(losses).sum(), [p for p, _ in reached], [g for _, g in reached]
    )
    return total, torch.stack(measures).sum()


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return a if b is None else b
    return a + b
