"""Atomic replacement of files, and the cache of kernels and self-tests."""

from __future__ import annotations

import logging
import os
import secrets
import shlex
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


def read_own(
    folder: str,
    name: str,
    lost: str,  # what is logged where others may write to the folder
) -> bytes | None:
    """Return a file of the cache, or None where it is missing or others may have written it."""
    try:
        path = cache_path(folder) / name
        with open(path, "rb", opener=_open_at_once) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or not _keeps(path.parent, lost):
                return None
            if _is_own(found):
                return file.read()
            warn_once(f"{path} is not used but replaced: another user owns or may write to it")
    except (OSError, RuntimeError):
        pass
    return None


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for another process, as opening a named pipe does."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


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
        if _keeps(place, lost):
            replace_file(place / name, write)
    except RuntimeError as error:  # there is no home
        warn_once(f"{lost}: {error}")
    except OSError as error:
        warn_once(f"{lost}: {error.strerror}: {error.filename}")


def _keeps(folder: Path, lost: str) -> bool:
    """Return whether no other user can have written to a folder, or warn of what is lost."""
    if _is_own(folder.stat()):
        return True
    warn_once(
        f"{lost}: another user owns or may write to {folder}; call "
        f"`chmod go-w {shlex.quote(str(folder))}`, or let EQUIGEO_CACHE name a folder of your own"
    )
    return False


def _is_own(found: os.stat_result) -> bool:
    """Return whether no other user can have written this; true on Windows."""
    if not hasattr(os, "geteuid"):
        return True
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid == os.geteuid() and not others


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
