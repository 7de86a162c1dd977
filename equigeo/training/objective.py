"""Objectives of training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from equigeo.training.labelled_source import LabelledBatch


class Objective(ABC):
    """Loss of a batch with an interpretable measure.

    Attributes
    ----------
    measure : str, name of the measure; ``train_<measure>`` in the history
    form : str, format specification of the measure
    evaluated : str, entry of the history that is None after epochs without evaluation

    Examples
    --------
    >>> import torch
    >>> class Squares(Objective):
    ...     measure, form, evaluated = "error", ".3f", "test_error"
    ...     def sums(self, model, batch):
    ...         differences = model(batch.inputs) - batch.labels
    ...         return differences.square().sum(), differences.abs().sum()
    >>> batch = LabelledBatch(torch.tensor([1.0, 2.0]), torch.tensor([0, 0]), total=2)
    >>> Squares().sums(nn.Identity(), batch)
    (tensor(5.), tensor(3.))
    """

    measure: ClassVar[str]
    form: ClassVar[str]
    evaluated: ClassVar[str]

    @abstractmethod
    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Return loss (with a gradient) and measure, summed over the samples of a process, ()."""

    def counted(self, batch: LabelledBatch) -> int | None:
        """Return the number of samples in the sums, by which means are divided; None for all."""
        return None
