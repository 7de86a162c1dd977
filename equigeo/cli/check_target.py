"""A look at where a file is to be written."""

from __future__ import annotations

import os
from pathlib import Path


def check_target(path: Path) -> None:
    """See early that a file can be written, without touching it.

    Raises
    ------
    ValueError
        If its folder does not exist or is not writable.

    Examples
    --------
    >>> check_target(Path("no such folder/results.json"))
    Traceback (most recent call last):
        ...
    ValueError: no such folder/results.json: cannot be written; choose a file in an existing folder
    """
    writable = path.parent.is_dir() and os.access(path.parent, os.W_OK)
    if not writable or path.is_dir():
        raise ValueError(f"{path}: cannot be written; choose a file in an existing folder")
