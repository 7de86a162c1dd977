"""How far figures may be from what they estimate, by the raw numbers of their records.

Accuracies have intervals by Wilson, ratios of times by bootstrap. Both say 95 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

LEVEL = 0.95
RESAMPLES = 9999


def of_accuracy(accuracy: float, number: int) -> tuple[float, float]:
    """Interval of a share of so many independent predictions, by Wilson.

    Examples
    --------
    >>> [round(end, 3) for end in of_accuracy(0.9, 10)]
    [0.596, 0.982]
    """
    found = stats.binomtest(round(accuracy * number), number).proportion_ci(LEVEL, method="wilson")
    return float(found.low), float(found.high)


def of_ratio(slower: Sequence[float], faster: Sequence[float]) -> tuple[float, float]:
    """Interval of the ratio of two medians of seconds, by drawing rounds anew.

    Parameters
    ----------
    slower, faster : sequence of float
        Seconds of interleaved calls: those of one round stay together.

    Examples
    --------
    >>> of_ratio([4.0, 4.0, 4.0], [2.0, 2.0, 2.0])
    (2.0, 2.0)
    >>> low, high = of_ratio([4.0, 5.0, 6.0], [2.0, 2.0, 2.0])
    >>> low, high
    (2.0, 3.0)
    """
    if len(slower) != len(faster):
        raise ValueError(f"rounds must be interleaved, got {len(slower)} and {len(faster)}")
    rounds = np.random.default_rng(0).integers(len(slower), size=(RESAMPLES, len(slower)))
    medians = [np.median(np.asarray(seconds)[rounds], axis=1) for seconds in (slower, faster)]
    low, high = np.quantile(medians[0] / medians[1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
