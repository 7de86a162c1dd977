"""The objective of tours."""

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
    """REINFORCE with one sampled tour per start city and their mean length as the baseline."""

    measure: ClassVar[str] = "length"
    form: ClassVar[str] = ".3f"
    evaluated: ClassVar[str] = "greedy_length"

    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Sum surrogate losses and mean lengths of a batch."""
        # REINFORCE: Williams, 1992; shared baseline of all starts: POMO, Kwon et al., 2020. The
        # gradient estimates that of the expected length; the value of the loss has no meaning.
        instances, cities, _ = batch.inputs.shape
        # one tour from every city: solutions are symmetric in where they start
        starts = torch.arange(cities, device=batch.inputs.device).expand(instances, -1)
        tours = model(batch.inputs, starts, sample=True)
        length = tours.length.detach()  # lengths are rewards, only choices have a gradient
        mean = length.mean(dim=1, keepdim=True)
        above = length - mean
        # over the whole batch: instances without much to gain then weigh little
        deviation = above.square().mean().sqrt().maximum(_LEAST * mean.mean())
        # equal tours have no deviation at all, and no advantage
        advantage = (above / torch.where(deviation > 0, deviation, 1)).to(tours.log_prob.dtype)
        return (advantage * tours.log_prob).mean(dim=1).sum(), mean.sum()
