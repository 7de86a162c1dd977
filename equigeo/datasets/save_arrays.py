"""Saving of arrays in the cache, without ever showing half a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equigeo.datasets.apply_umask import apply_umask


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
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=".partial-", suffix=".npz")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        apply_umask(Path(partial))
        os.replace(partial, path)
    except BaseException as error:
        Path(partial).unlink(missing_ok=True)
        if isinstance(error, OSError):  # a full disk is reported without saying where
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise
