"""Files that are either old or new, never half-written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def replace_file(path: Path, content: str | Callable[[BinaryIO], object]) -> None:
    """Write a file beside its place, flush it to the disk, then rename it into place.

    The temporary name is fixed per target, so that what a killed process left is overwritten by
    the next attempt; one writer per target is assumed.

    Parameters
    ----------
    path : Path
        The target; its folder must exist.
    content : str or callable
        Text, or what receives the open binary file and writes to it.

    Raises
    ------
    OSError
        If the file cannot be written; the target is then what it was.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace_file(Path(folder) / "a", "text")
    ...     sorted(p.name for p in Path(folder).iterdir())
    ['a']
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            if isinstance(content, str):
                file.write(content.encode())
            else:
                content(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where folders can be opened (not on Windows)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
