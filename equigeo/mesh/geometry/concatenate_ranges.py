"""Concatenation of integer ranges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def concatenate_ranges(first: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate ``range(first[i], first[i] + sizes[i])`` over all ``i``."""
    # Entry j of the result is j, shifted by the difference between where its range begins and
    # where that range begins in the result.
    offset = first - (np.cumsum(sizes) - sizes)
    return np.repeat(offset, sizes) + np.arange(int(sizes.sum()))
