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
    measure : str
        What the number is called; ``train_<measure>`` in the history.
    form : str
        How it is shown, a format specification.
    evaluated : str
        Entry of the history that is None after epochs that are not evaluated.

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
        """Run the model on a batch.

        Parameters
        ----------
        model : torch.nn.Module
            In training mode.
        batch : LabelledBatch
            One process's share of a step.

        Returns
        -------
        loss : Tensor, ()
            Sum over the samples, with a gradient.
        measure : Tensor, ()
            Sum over the samples.
        """

    def counted(self, batch: LabelledBatch) -> int | None:
        """Return the number of samples in the sums of a batch, by which means are divided.

        Parameters
        ----------
        batch : LabelledBatch
            One process's share of a step.

        Returns
        -------
        int, optional
            None where all samples count, which is the default.
        """
        return None
