"""Atomic replacement of files, and the cache folder of kernels."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_SUFFIX = ".tmp"


def replace_file(
    path: Path,
    content: str | bytes | Callable[[BinaryIO], object],  # a callable receives the open binary file
) -> None:
    """Write a temporary file, flush it to disk and rename it to ``path``."""
    # A unique name per attempt, so that concurrent writers do not interfere.
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


def cache_path(name: str) -> Path:
    """Return a folder of the cache of kernels; raise ``RuntimeError`` where there is no home."""
    chosen = os.environ.get("EQUIGEO_CACHE")
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(chosen) if chosen else Path(caches) / "equigeo"
    return folder.expanduser() / name


def remove_unfinished(path: Path) -> None:
    """Remove temporary files of killed processes; no other process may be writing the file."""
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
    """Flush the rename to disk where folders can be opened (not on Windows)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
