"""Ordinary permissions for what was made as a private temporary file."""

from __future__ import annotations

import os
from pathlib import Path


def apply_umask(path: Path) -> None:
    """Give a file or folder the permissions that it would have if made by its own name.

    Temporary files are readable by their owner alone, which would shut other users out of a
    shared cache.

    Parameters
    ----------
    path : Path
        What to change.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     apply_umask(Path(folder))
    """
    mask = os.umask(0)
    os.umask(mask)
    path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)
