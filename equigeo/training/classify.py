"""Logits of a model on many inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.nn.evaluating import evaluating


@torch.no_grad()
def classify(model: nn.Module, batches: Iterable[Any]) -> Tensor:
    """Run a model in evaluation mode, a batch at a time; its mode is put back.

    Parameters
    ----------
    model : torch.nn.Module
        On any device.
    batches : iterable of Tensor or PrimalDualGraph
        At least one; moved to the model's device one after the other.

    Returns
    -------
    Tensor, (samples, classes)
        Logits, on the CPU.

    Examples
    --------
    >>> classify(nn.Linear(3, 2), [torch.zeros(4, 3), torch.zeros(1, 3)]).shape
    torch.Size([5, 2])
    """
    device = next(model.parameters()).device
    with evaluating(model):
        return torch.cat([model(batch.to(device)).cpu() for batch in batches])
