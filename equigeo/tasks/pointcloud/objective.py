"""The objective of classification where training clouds stand upright.

On its own because it is the mathematics of the task; the rest of training is wiring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.labelled_source import LabelledBatch


@dataclass(frozen=True)
class UprightCrossEntropy(CrossEntropy):
    """Cross-entropy of pairs of a class and the direction that is up.

    For models with ``pairs``, such as an ``InvariantPointNet`` with ``upright``. The measure is
    whether the class is right, whatever the direction.

    Parameters
    ----------
    label_smoothing : float
        Share of the target spread over all pairs, in [0, 1).
    adjustment : tuple of float
        As of ``CrossEntropy``, for every class.

    Examples
    --------
    >>> import torch
    >>> from equigeo.mds import InvariantPointNet, InvariantPointNetConfig
    >>> model = InvariantPointNet(InvariantPointNetConfig(10, upright=True))
    >>> batch = LabelledBatch(torch.rand(4, 100, 3), torch.tensor([0, 1, 2, 3]), 4)
    >>> UprightCrossEntropy().sums(model, batch)[0].shape
    torch.Size([])
    """

    def sums(self, model: Any, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Sum losses and correct classes of a batch."""
        logits, up = model.pairs(batch.inputs)
        right = logits.detach().logsumexp(-1).argmax(dim=1) == batch.labels
        return self._loss(logits, batch.labels * logits.shape[-1] + up), right.sum()
