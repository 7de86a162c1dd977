"""Saving of arrays in the cache, without ever showing half a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equigeo.datasets.replace_file import replace_file


def save_arrays(path: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write an ``.npz`` file under a temporary name and rename it when it is complete.

    Parameters
    ----------
    path : Path
        The file; missing folders are made, an existing file is replaced.
    arrays : mapping of str to array
        What to store; no object arrays.

    Raises
    ------
    OSError
        If the file cannot be written, with its path; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
