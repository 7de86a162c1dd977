"""The objective of tours.

On its own because it is the mathematics of the task; the rest of training is wiring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from equigeo.training.labelled_source import LabelledBatch
from equigeo.training.objective import Objective

_LEAST = 1e-4  # what is below is rounding


@dataclass(frozen=True)
class PolicyGradient(Objective):
    r"""REINFORCE with one sampled tour from every city, whose mean length is the baseline.

    .. math:: \sum_b \frac1n \sum_i \frac{L_{bi} - \bar L_b}{\sigma} \log p_{bi}

    Its gradient estimates that of the expected length, in units of the deviation σ of all tours of
    the batch from their baselines, which keeps steps from fading as tours become alike; σ is at
    least 1e-4 of the mean length. Its value means nothing.

    References
    ----------
    Williams, "Simple statistical gradient-following algorithms", 1992; Kwon et al., "POMO: policy
    optimization with multiple optima for reinforcement learning", 2020.

    Examples
    --------
    >>> from equigeo.mds import AttentionModel
    >>> batch = LabelledBatch(torch.rand(4, 6, 2), torch.zeros(4), 4)
    >>> loss, length = PolicyGradient().sums(AttentionModel.preset("default"), batch)
    >>> loss.requires_grad, length.requires_grad
    (True, False)
    """

    measure: ClassVar[str] = "length"
    form: ClassVar[str] = ".3f"
    evaluated: ClassVar[str] = "greedy_length"

    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Sum surrogate losses and mean lengths of a batch."""
        instances, cities, _ = batch.inputs.shape
        starts = torch.arange(cities, device=batch.inputs.device).expand(instances, -1)
        tours = model(batch.inputs, starts, sample=True)
        length = tours.length.detach()
        mean = length.mean(dim=1, keepdim=True)
        above = length - mean
        deviation = above.square().mean().sqrt().maximum(_LEAST * mean.mean())
        advantage = (above / torch.where(deviation > 0, deviation, 1)).to(tours.log_prob.dtype)
        return (advantage * tours.log_prob).mean(dim=1).sum(), mean.sum()
