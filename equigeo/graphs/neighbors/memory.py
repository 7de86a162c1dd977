"""Memory estimates before allocation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

BYTES_PER_EDGE: Final = 128
"""At the peak of a search: 57 to 68 by ``bench/neighbors.py``, and as much again for gradients."""

ALWAYS_THERE: Final = 2**28
"""Bytes that are allocated without a check of the available memory."""


def available_bytes() -> int | None:
    """Return the available memory of the machine or control group; None if unknown."""
    known = [size for size in (_of_machine(), _of_control_group()) if size is not None]
    return min(known, default=None)


def check_size(
    rows: float,
    numbers: float,  # doubles per row
    what: str = "images of points",  # name of the rows, for the message
    argument: str = "cutoff",  # argument to reduce, for the message
) -> None:
    """Raise if rows of doubles do not fit in the available memory."""
    wanted = 8 * rows * numbers
    if wanted <= ALWAYS_THERE:
        return
    there = available_bytes()
    if there is not None and wanted > there:
        raise ValueError(
            f"{argument} must be smaller: it reaches {rows:.3g} {what}, which take "
            f"{wanted / 1e9:.2g} GB of memory where {there / 1e9:.2g} GB are available"
        )


def _of_machine() -> int | None:
    info = Path("/proc/meminfo")
    if info.exists():
        lines = (line.split() for line in info.read_text().splitlines())
        sizes = {words[0]: int(words[1]) for words in lines if len(words) > 1}
        if "MemAvailable:" in sizes:
            return 1024 * sizes["MemAvailable:"]
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_control_group() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        most = (folder / "memory.max").read_text().strip()
        used = (folder / "memory.current").read_text().strip()
    except OSError:
        return None
    return None if most == "max" else max(int(most) - int(used), 0)
