"""Time limit of a session."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

_LONGEST = 525_600.0  # minutes of a year


def time_limit(minutes: float) -> list[Any]:
    """Return the Lightning callbacks that end training after the first step past ``minutes``.

    A checkpoint is written there, and resuming continues with the next step; the final weights do
    not depend on where sessions end.

    Examples
    --------
    >>> len(time_limit(0.5))
    1
    """
    if not 0 < minutes <= _LONGEST:
        raise ValueError(
            "the time limit must be a positive number of minutes, at most "
            f"{_LONGEST:.0f}, got {minutes}"
        )
    from equigeo.training.loop.lightning import L

    duration = max(timedelta(minutes=minutes), timedelta.resolution)  # 0 would allow no step
    return [L.pytorch.callbacks.Timer(duration, verbose=False)]
