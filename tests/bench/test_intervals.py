"""Intervals of figures hold what they promise."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import bench.intervals
from bench.intervals import LEVEL, of_accuracy, of_ratio

ROUNDING = 1e-12  # a few operations in float64
TRIALS = 400
# Of intervals that hold at least so often: three deviations of a count of TRIALS
LEAST = LEVEL - 3 * (LEVEL * (1 - LEVEL) / TRIALS) ** 0.5


def test_examples():
    assert doctest.testmod(bench.intervals).failed == 0


def test_the_interval_of_an_accuracy_is_that_of_wilson():
    """Centre and half width by the formula of Wilson (1927), at z = 1.959964."""
    share, number, z = 598 / 600, 600, 1.959963984540054
    middle = (share + z * z / (2 * number)) / (1 + z * z / number)
    half = z / (1 + z * z / number) * (
        share * (1 - share) / number + z * z / (4 * number * number)
    ) ** 0.5  # fmt: skip
    assert of_accuracy(share, number) == pytest.approx((middle - half, middle + half), rel=ROUNDING)
    assert of_accuracy(1.0, 120)[1] == 1.0
    assert of_accuracy(1.0, 120)[0] == pytest.approx(1 / (1 + z * z / 120), rel=ROUNDING)


def test_intervals_of_accuracies_hold_the_share_that_was_drawn_from():
    drawn = np.random.default_rng(1).binomial(454, 0.92, TRIALS)
    held = [low <= 0.92 <= high for low, high in (of_accuracy(k / 454, 454) for k in drawn)]
    assert np.mean(held) >= LEAST


def test_rounds_stay_together():
    """A machine that slows down in some rounds slows both sides down: the ratio is exact."""
    load = np.random.default_rng(2).uniform(1, 3, 9)
    assert of_ratio((5 * load).tolist(), load.tolist()) == pytest.approx((5, 5), rel=ROUNDING)
    low, high = of_ratio((5 * load).tolist(), load[::-1].tolist())
    assert high / low > 1.1


def test_unequal_numbers_of_rounds_are_refused():
    with pytest.raises(ValueError, match="interleaved, got 2 and 3"):
        of_ratio([1.0, 2.0], [1.0, 2.0, 3.0])
