"""Classification objective for upright training clouds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.labelled_source import LabelledBatch
from equigeo.training.objective import Objective


@dataclass(frozen=True)
class UprightCrossEntropy(Objective):
    """Cross-entropy over pairs of class and up direction, for models with ``pairs``."""

    pairs: CrossEntropy = field(default_factory=CrossEntropy)  # adjustment is per class

    measure = CrossEntropy.measure
    form = CrossEntropy.form
    evaluated = CrossEntropy.evaluated

    def sums(self, model: Any, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Sum losses and correct classes of a batch, for any direction."""
        logits, up = model.pairs(batch.inputs)
        # the probability of a class is the sum over directions
        right = logits.detach().logsumexp(-1).argmax(dim=1) == batch.labels
        return self.pairs.loss(logits, batch.labels * logits.shape[-1] + up), right.sum()
