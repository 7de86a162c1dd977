"""Atomic replacement of files, and the cache of kernels and self-tests."""

from __future__ import annotations

import logging
import os
import secrets
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import BinaryIO

_SUFFIX = ".tmp"
_log = logging.getLogger("equigeo")


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


def read_own(folder: str, name: str) -> bytes | None:
    """Return a file of the cache, or None where it is missing or others may have written it."""
    try:
        path = cache_path(folder) / name
        with path.open("rb") as file:
            places = [(path.parent, path.parent.stat()), (path, os.fstat(file.fileno()))]
            return file.read() if all(_is_own(*place) for place in places) else None
    except (OSError, RuntimeError):
        return None


def write_own(
    folder: str,
    name: str,
    content: bytes,
    lost: str,  # what is logged where nothing can be written
) -> None:
    """Write a file of the cache to which others cannot write, or warn."""

    def write(file: BinaryIO) -> None:
        if hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), 0o600)
        file.write(content)

    try:
        place = cache_path(folder)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_own(place, place.stat()):
            replace_file(place / name, write)
    except RuntimeError as error:  # there is no home
        warn_once(f"{lost}: {error}")
    except OSError as error:
        warn_once(f"{lost}: {error.strerror}: {error.filename}")


def _is_own(path: Path, found: os.stat_result) -> bool:
    """Return whether no other user can have written this, or warn; true on Windows."""
    if not hasattr(os, "geteuid"):
        return True
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if found.st_uid == os.geteuid() and not others:
        return True
    warn_once(f"the cache does not use {path}: another user owns or may write to it")
    return False


@cache
def warn_once(text: str) -> None:
    """Log a warning that this process has not logged before."""
    _log.warning("%s", text)


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
