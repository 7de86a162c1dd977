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
        What the loss adds to the logit of every class, and nothing else does; none if empty.

    References
    ----------
    Menon et al., "Long-tail learning via logit adjustment", ICLR 2021.

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
        """Build the objective of a recipe.

        Parameters
        ----------
        recipe : Recipe
            Whose label smoothing and logit adjustment to take.
        labels : Tensor, (samples,), int64
            Of all training samples. A class without any counts as if it had one.
        num_classes : int
            Number of logits.

        Examples
        --------
        >>> recipe = Recipe(epochs=1, batch_size=1, learning_rate=1.0, logit_adjustment=1.0)
        >>> CrossEntropy.of(recipe, torch.tensor([0, 1, 1, 1]), 2).adjustment
        (-1.3862943611198906, -0.2876820724517809)
        """
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
        """Sum losses over samples.

        Parameters
        ----------
        logits : Tensor, (B, classes, *)
            All logits of a sample are one classification.
        targets : Tensor, (B,), int64
            Positions among all logits of a sample.
        """
        if self.adjustment:
            ones = [1] * (logits.ndim - 2)
            logits = logits + logits.new_tensor(self.adjustment).view(-1, *ones)
        return F.cross_entropy(
            logits.flatten(1), targets, label_smoothing=self.label_smoothing, reduction="sum"
        )
