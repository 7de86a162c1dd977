"""Rules of principal axes, with the integer codes of the kernels."""

from __future__ import annotations

from enum import IntEnum


class SignRule(IntEnum):
    """Rule for the signs of axes.

    Skewness is the third moment divided by the sum of the magnitudes of its terms.
    """

    AS_FOUND = 0
    """As the solver leaves them."""
    EACH = 1
    """Each by its own skewness."""
    LAST = 2
    """Each by its own, but for the last axis, which makes the frame right-handed."""
    LEAST = 3
    """Each by its own, but for the axis of least skewness, which makes the frame right-handed."""


class ScaleRule(IntEnum):
    """Rule that determines the scale of clouds."""

    UNSCALED = 0
    """Nothing."""
    RMS = 1
    """The root mean square of points."""
    FIRST = 2
    """The root mean square of the first coordinate."""
    PAIRS = 3
    """The root mean square of distances between two points."""
