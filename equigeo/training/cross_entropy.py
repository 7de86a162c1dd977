"""Classification objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._brief import brief_fields
from equigeo.training.labelled_source import LabelledBatch
from equigeo.training.objective import Objective
from equigeo.training.recipe import Recipe


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Cross-entropy of logits, with accuracy as the measure.

    Parameters
    ----------
    label_smoothing : float
        Share of the target spread over all classes, in [0, 1).
    adjustment : tuple of float
        Added to the logit of every class in the loss only; empty for none. Menon et al., "Long-tail
        learning via logit adjustment", ICLR 2021.

    Examples
    --------
    >>> import torch
    >>> batch = LabelledBatch(torch.eye(2), torch.tensor([0, 0]), 2)
    >>> CrossEntropy().sums(nn.Identity(), batch)[1]
    tensor(1)
    """

    label_smoothing: float = 0.0
    adjustment: tuple[float, ...] = ()

    __repr__ = brief_fields

    measure: ClassVar[str] = "accuracy"
    form: ClassVar[str] = ".1%"
    evaluated: ClassVar[str] = "test_accuracy"

    @classmethod
    def of(cls, recipe: Recipe, labels: Tensor, num_classes: int) -> CrossEntropy:
        """Build the objective of a recipe from the labels (samples,) of all training samples."""
        if recipe.logit_adjustment == 0:
            return cls(recipe.label_smoothing)
        # a class without samples would have the logarithm of 0
        counts = torch.bincount(labels, minlength=num_classes).clamp_min(1).double()
        logarithms = recipe.logit_adjustment * (counts / counts.sum()).log()
        return cls(recipe.label_smoothing, tuple(logarithms.tolist()))

    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Sum losses and correct predictions of a batch."""
        logits = model(batch.inputs)
        right = logits.detach().argmax(dim=1) == batch.labels
        return self.loss(logits, batch.labels), right.sum()

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Sum losses over samples; all logits of a sample (B, classes, *) are one classification.

        ``targets`` (B,) are positions among the flattened logits of a sample.
        """
        if self.adjustment:
            ones = [1] * (logits.ndim - 2)
            logits = logits + logits.new_tensor(self.adjustment).view(-1, *ones)
        return F.cross_entropy(
            logits.flatten(1), targets, label_smoothing=self.label_smoothing, reduction="sum"
        )
