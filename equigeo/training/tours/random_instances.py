"""Instances of the travelling-salesman problem, drawn when they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from equigeo.training.labelled_batch import LabelledBatch
from equigeo.training.labelled_source import LabelledSource
from equigeo.training.random_state import derived_generator


@dataclass(frozen=True, eq=False)
class RandomInstances(LabelledSource):
    """Cities uniform in the unit square; labels are zeros.

    Parameters
    ----------
    number : int
        Instances of an epoch.
    cities : int
        Of every instance.

    Examples
    --------
    >>> RandomInstances(1000, 20).batch(range(8)).inputs.shape
    torch.Size([8, 20, 2])
    """

    number: int
    cities: int

    def __len__(self) -> int:
        """Count the instances of an epoch."""
        return self.number

    def batch(
        self,
        indices: Sequence[int],
        total: int | None = None,
        generator: torch.Generator | None = None,
    ) -> LabelledBatch:
        """Draw as many instances as there are indices; without a generator always the same."""
        if generator is None:
            generator = derived_generator(0, "instances", self.number)
        shape = (len(indices), self.cities, 2)
        inputs = torch.rand(shape, generator=generator, dtype=torch.float64)
        number = len(indices) if total is None else total
        return LabelledBatch(inputs, torch.zeros(len(indices), dtype=torch.int64), number)
