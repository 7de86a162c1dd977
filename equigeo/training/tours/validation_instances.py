"""Instances that training runs on tours are watched on."""

from __future__ import annotations

from torch import Tensor

from equigeo.training.tours.random_instances import RandomInstances

_NUMBER = 1000


def validation_instances(cities: int) -> Tensor:
    """Give the thousand instances that runs are watched on, for any seed the same.

    Parameters
    ----------
    cities : int
        Of every instance.

    Returns
    -------
    Tensor, (1000, cities, 2), float64
        Uniform in the unit square; neither training nor test instances.

    Examples
    --------
    >>> validation_instances(20).shape
    torch.Size([1000, 20, 2])
    """
    return RandomInstances(_NUMBER, cities).batch(range(_NUMBER)).inputs
