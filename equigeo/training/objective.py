"""What a run minimises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from equigeo.training.labelled_source import LabelledBatch


class Objective(ABC):
    """The loss of a batch, and a number beside it that people understand.

    Attributes
    ----------
    measure : str
        What the number is called; ``train_<measure>`` in the history.
    form : str
        How it is shown, a format specification.
    evaluated : str
        Entry of the history that is None after epochs that are not evaluated.
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
