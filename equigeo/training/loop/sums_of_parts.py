"""The loss of a batch whose parts are run one after the other: accumulated gradients.

On its own because it can be tested without Lightning.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo.training.known_gradients import known_gradients
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
    total = known_gradients(
        torch.stack(losses).sum(), [p for p, _ in reached], [g for _, g in reached]
    )
    return total, torch.stack(measures).sum()


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return a if b is None else b
    return a + b
