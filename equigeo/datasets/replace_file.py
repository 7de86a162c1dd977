"""Files that are either old or new, never half-written."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_SUFFIX = ".tmp"


def replace_file(path: Path, content: str | bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file beside its place, flush it to the disk, then rename it into place.

    Every attempt has a temporary name of its own, so that several processes may write one target:
    the last to finish wins as a whole. What a killed process left is harmless;
    :func:`remove_unfinished` removes it.

    Parameters
    ----------
    path : Path
        The target; its folder must exist.
    content : str, bytes or callable
        What to write, or what receives the open binary file and writes to it.

    Raises
    ------
    OSError
        If the file cannot be written, with its path; the target is then what it was.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace_file(Path(folder) / "a", "text")
    ...     sorted(p.name for p in Path(folder).iterdir())
    ['a']
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}{_SUFFIX}")
    try:
        with temporary.open("xb") as file:
            _write(file, content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):  # a full disk is reported without saying where
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise
    _sync_folder(path.parent)


def remove_unfinished(path: Path) -> None:
    """Remove what killed processes left of a file; no other may be writing it.

    Parameters
    ----------
    path : Path
        The target of :func:`replace_file`.
    """
    for left in path.parent.glob(f".{path.name}.*{_SUFFIX}"):
        left.unlink(missing_ok=True)


def _write(file: BinaryIO, content: str | bytes | Callable[[BinaryIO], object]) -> None:
    if callable(content):
        content(file)
    else:
        if isinstance(content, str):  # in which names of files need not be UTF-8
            content = content.encode(errors="backslashreplace")
        file.write(content)


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
