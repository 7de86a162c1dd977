"""Many integer ranges in one array: the positions of the parts of a ragged array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def concatenate_ranges(first: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate ``range(first[i], first[i] + sizes[i])``.

    Parameters
    ----------
    first, sizes : ndarray, (n,), int64
        Beginning and length of each range.

    Returns
    -------
    ndarray, (sum of sizes,), int64
        All ranges in a row.

    Examples
    --------
    >>> concatenate_ranges(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    # Entry j of the result is j, shifted by the difference between where its range begins and
    # where that range begins in the result.
    offset = first - (np.cumsum(sizes) - sizes)
    return np.repeat(offset, sizes) + np.arange(int(sizes.sum()))
