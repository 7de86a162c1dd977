"""Random numbers that belong to one transformed image each."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def uniform_draws(
    seed: int, name: str, pairs: Iterable[tuple[int, int]], number: int
) -> NDArray[np.float64]:
    """Draw uniform numbers for every pair (index, variant), whatever else is drawn.

    They are read off the seed sequence itself: its words are the same in every version of NumPy,
    which the methods of a generator do not promise.

    Parameters
    ----------
    seed : int
        Seed of the data set, not negative.
    name : str
        Name of the stream.
    pairs : iterable of (int, int)
        Index and variant, not negative.
    number : int
        Numbers for each pair.

    Returns
    -------
    array, (pairs, number), float64
        Strictly between 0 and 1.

    Examples
    --------
    >>> both = uniform_draws(0, "demo", [(3, 0), (5, 1)], 4)
    >>> bool((both[1:] == uniform_draws(0, "demo", [(5, 1)], 4)).all())
    True
    """
    stream = zlib.crc32(name.encode())
    words = [
        np.random.SeedSequence([seed, stream, index, variant]).generate_state(number, np.uint64)
        for index, variant in pairs
    ]
    stacked = np.array(words, dtype=np.uint64).reshape(-1, number)
    return ((stacked >> np.uint64(12)) + 0.5) * 2.0**-52
