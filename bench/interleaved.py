"""Timing several things in turn, so that what disturbs one disturbs all."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

Call = Callable[[], Any]


def medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    """The middle of every call's rounds."""
    return {name: median(values) for name, values in seconds.items()}


def all_rounds(
    calls: dict[str, Call], rounds: int = 7, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each call in every round, after one of each that does not count."""
    for call in calls.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            call()
            seconds[name].append(clock() - start)
    return seconds


def copy_bandwidth(megabytes: int = 256) -> float:
    """Bytes read and written per second by a copy between arrays beyond the caches."""
    source = torch.ones(megabytes * 2**18)
    target = torch.empty_like(source)
    seconds = all_rounds({"copy": lambda: target.copy_(source)}, rounds=9)["copy"]
    return 2 * source.nbytes / median(seconds)
