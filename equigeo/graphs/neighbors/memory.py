"""How much memory a list would take, known before any is allocated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

BYTES_PER_EDGE: Final = 128
"""At the peak of a search: 57 to 68 by ``bench/neighbors.py``, and as much again for gradients."""

ALWAYS_THERE: Final = 2**28
"""Bytes for which nobody asks how much there is."""


def available_bytes() -> int | None:
    """Ask how much memory can be had without swapping.

    Returns
    -------
    int or None
        Of the machine, or the control group that the process is in, whichever is less; None where
        the system does not say.

    Examples
    --------
    >>> found = available_bytes()
    >>> found is None or found > 0
    True
    """
    known = [size for size in (_of_machine(), _of_control_group()) if size is not None]
    return min(known, default=None)


def check_size(
    rows: float, numbers: float, what: str = "images of points", argument: str = "cutoff"
) -> None:
    """Refuse to begin what memory would not hold.

    Parameters
    ----------
    rows : float
        How many there will be.
    numbers : float
        How many doubles each takes.
    what : str
        What they are, for the message.
    argument : str
        What must be smaller.

    Raises
    ------
    ValueError
        Saying how much it would be.

    Examples
    --------
    >>> check_size(1e15, 3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: cutoff must be smaller: it reaches 1e+15 images of points, which take 2.4e+07 GB ...
    """
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
