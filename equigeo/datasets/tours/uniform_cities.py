"""Random instances of the travelling-salesman problem, as the published test sets are made."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def uniform_cities(number: int, cities: int, seed: int = 1234) -> Tensor:
    """Draw cities uniformly from the unit square.

    Parameters
    ----------
    number : int
        Number of instances. A smaller number returns the first of them.
    cities : int
        Cities per instance.
    seed : int
        1234 reproduces the published test sets ``tsp20_test_seed1234`` etc. of 10,000 instances.

    Returns
    -------
    Tensor, (number, cities, 2), float64

    References
    ----------
    Kool, van Hoof and Welling, "Attention, learn to solve routing problems!", ICLR 2019.

    Examples
    --------
    >>> uniform_cities(1, 20)[0, 0].tolist()
    [0.1915194503788923, 0.6221087710398319]
    """
    if min(number, cities) < 1 or not 0 <= seed < 2**32:
        raise ValueError(
            "numbers must be positive and the seed one of 32 bits, got "
            f"{number} instances of {cities} cities, seed {seed}"
        )
    # the generator of the published sets
    generator = np.random.RandomState(seed)
    return torch.from_numpy(generator.uniform(size=(number, cities, 2)))
