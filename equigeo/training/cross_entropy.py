"""The objective of classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from equigeo.training.labelled_batch import LabelledBatch
from equigeo.training.objective import Objective


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Cross-entropy of logits, and whether the class of the largest is right.

    Parameters
    ----------
    label_smoothing : float
        Share of the target spread over all classes, in [0, 1).

    Examples
    --------
    >>> import torch
    >>> batch = LabelledBatch(torch.eye(2), torch.tensor([0, 0]), 2)
    >>> CrossEntropy().sums(nn.Identity(), batch)[1]
    tensor(1)
    """

    label_smoothing: float = 0.0

    measure: ClassVar[str] = "accuracy"
    form: ClassVar[str] = ".1%"
    evaluated: ClassVar[str] = "test_accuracy"

    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Sum losses and correct predictions of a batch."""
        logits = model(batch.inputs)
        loss = F.cross_entropy(
            logits, batch.labels, label_smoothing=self.label_smoothing, reduction="sum"
        )
        return loss, (logits.detach().argmax(dim=1) == batch.labels).sum()
