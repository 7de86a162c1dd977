"""Many integer ranges in one array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ranges(first: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
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
    >>> ranges(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    offset = first - (np.cumsum(sizes) - sizes)
    return np.repeat(offset, sizes) + np.arange(int(sizes.sum()))
