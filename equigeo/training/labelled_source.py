"""Where batches come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from equigeo.training.labelled_batch import LabelledBatch


class LabelledSource(ABC):
    """Labelled samples in memory, from which batches are assembled by position."""

    labels: Tensor

    def __len__(self) -> int:
        """Count the samples."""
        return len(self.labels)

    @abstractmethod
    def batch(
        self,
        indices: Sequence[int],
        total: int | None = None,
        generator: torch.Generator | None = None,
    ) -> LabelledBatch:
        """Unite some samples, in the given order.

        Parameters
        ----------
        indices : sequence of int
            Which samples.
        total : int, optional
            Samples of the step over all processes; by default those of this batch.
        generator : torch.Generator, optional
            Source of the noise that training adds, if any; without it nothing is added.
        """

    def batches(self, batch_size: int) -> Iterator[LabelledBatch]:
        """Give all samples in order and without noise, ``batch_size`` at a time."""
        for start in range(0, len(self), batch_size):
            yield self.batch(range(start, min(start + batch_size, len(self))))
