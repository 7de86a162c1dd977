"""The objective of classification where training clouds stand upright.

On its own because it is the mathematics of the task; the rest of training is wiring.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.labelled_source import LabelledBatch
from equigeo.training.objective import Objective


@dataclass(frozen=True)
class UprightCrossEntropy(Objective):
    """Cross-entropy of pairs of a class and the direction that is up.

    For models with ``pairs``, such as an ``InvariantPointNet`` with ``upright``. The measure is
    whether the class is right, whatever the direction.

    Parameters
    ----------
    pairs : CrossEntropy
        The loss of pairs: its label smoothing is spread over all of them, its adjustment is that of
        every class.

    Examples
    --------
    >>> import torch
    >>> from equigeo.mds import InvariantPointNet, InvariantPointNetConfig
    >>> model = InvariantPointNet(InvariantPointNetConfig(10, upright=True))
    >>> batch = LabelledBatch(torch.rand(4, 100, 3), torch.tensor([0, 1, 2, 3]), 4)
    >>> UprightCrossEntropy().sums(model, batch)[0].shape
    torch.Size([])
    """

    pairs: CrossEntropy = field(default_factory=CrossEntropy)

    measure = CrossEntropy.measure
    form = CrossEntropy.form
    evaluated = CrossEntropy.evaluated

    def sums(self, model: Any, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Sum losses and correct classes of a batch."""
        logits, up = model.pairs(batch.inputs)
        # the probability of a class is the sum over directions
        right = logits.detach().logsumexp(-1).argmax(dim=1) == batch.labels
        return self.pairs.loss(logits, batch.labels * logits.shape[-1] + up), right.sum()
