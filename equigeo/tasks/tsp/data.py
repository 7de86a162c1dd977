"""Random instances of the travelling-salesman problem, drawn on demand."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from equigeo.training.labelled_source import LabelledSource
from equigeo.training.random_state import derived_generator


@dataclass(frozen=True, eq=False)
class RandomInstances(LabelledSource):
    """Source of cities uniform in the unit square; labels are zeros."""

    number: int  # instances per epoch
    cities: int  # per instance
    labels: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Set labels that take no memory."""
        labels = torch.zeros((), dtype=torch.int64).expand(self.number)
        object.__setattr__(self, "labels", labels)

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw instances; without a generator, the fixed instances of the given positions."""
        if generator is not None:
            shape = (len(chosen), self.cities, 2)
            return torch.rand(shape, generator=generator, dtype=torch.float64)
        # a stream for each instance, which does not depend on the others
        streams = (derived_generator(0, "instance", i) for i in chosen.tolist())
        drawn = [torch.rand(self.cities, 2, generator=g, dtype=torch.float64) for g in streams]
        return torch.stack(drawn)


_NUMBER = 1000


def validation_instances(cities: int) -> Tensor:
    """Return the thousand validation instances, (1000, cities, 2) float64, equal for all seeds.

    They are uniform in the unit square, and neither training nor test instances.

    Examples
    --------
    >>> validation_instances(20).shape
    torch.Size([1000, 20, 2])
    """
    generator = derived_generator(0, "instances", _NUMBER)
    return torch.rand((_NUMBER, cities, 2), generator=generator, dtype=torch.float64)
