"""Errors, small untrusted files and locks of run folders."""

from __future__ import annotations

import errno
import json
import os
import platform
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from equigeo.training.config import RunConfig

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_Config = TypeVar("_Config", bound=RunConfig)
_LARGEST = 1 << 20  # bytes of a configuration, which has about a thousand
_LOCK_FILE = ".lock"
_HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_ATTEMPTS = 5  # within a tenth of a second: ``refuse_locked`` itself holds the lock for an instant
_PAUSE = 0.02  # seconds


class CheckpointError(ValueError):
    """Unusable checkpoint; the message names the file, the cause and the remedy.

    Examples
    --------
    >>> from equigeo.training import Checkpoint
    >>> try:
    ...     Checkpoint.load("no_such_file.ckpt")
    ... except CheckpointError as error:
    ...     print(error)
    no_such_file.ckpt: no such file; pass the model.ckpt of a training run
    """


class OutputFolderError(ValueError):
    """Output folder that cannot take a run; the message names it, the cause and the remedy.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from equigeo.tasks.tsp import TourConfig
    >>> from equigeo.training.run_folder import RunFolder
    >>> with tempfile.NamedTemporaryFile() as file:  # no folder can be made below a file
    ...     try:
    ...         RunFolder(Path(file.name) / "run", TourConfig).check(TourConfig())
    ...     except OutputFolderError as error:
    ...         print(str(error).endswith("is not a folder); choose another --output"))
    True
    """


def read_config(path: Path, config_type: type[_Config]) -> _Config:
    """Load the ``config.json`` of a run; errors do not name the file."""
    return config_type.from_dict(read_json(path))


def read_json(path: Path) -> Any:
    """Load a small untrusted JSON file; errors do not name the file."""
    try:
        return json.loads(_text(path))
    except OSError as error:
        raise ValueError(str(error.strerror or error)) from error
    except RecursionError as error:  # of nested brackets
        raise ValueError("its brackets are nested too deep") from error


def _text(path: Path) -> str:
    """Read the file; raise if it is not regular or too large."""
    if not path.is_file():
        raise ValueError("it is no regular file" if path.exists() else "no such file")
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST} bytes")
    return content.decode()


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a run folder against other processes and threads with ``flock`` on ``.lock``."""
    # The operating system releases the lock when the process ends. Without `flock` (Windows, some
    # network file systems) a warning is logged and nothing is locked.
    descriptor = _acquire(folder)
    try:
        yield
    finally:
        if descriptor is not None:
            # removed while locked: no other process can have locked another file of this name
            (folder / _LOCK_FILE).unlink(missing_ok=True)
            os.close(descriptor)


def refuse_locked(folder: Path) -> None:
    """Raise if another process holds the lock of a folder, without changing anything."""
    try:
        descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR)
    except OSError:  # no such file, so there is no lock
        return
    try:
        _flock(descriptor, folder)
    finally:
        os.close(descriptor)


def _acquire(folder: Path) -> int | None:
    """Return the descriptor that holds the lock, or None if locks are unsupported."""
    while True:
        descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _flock(descriptor, folder):
                warnings.warn(
                    f"{folder}: this file system has no locks; do not train there twice at a time",
                    stacklevel=4,
                )
                (folder / _LOCK_FILE).unlink(missing_ok=True)
                os.close(descriptor)
                return None
            if _is_in_place(descriptor, folder):
                owner = f"{os.getpid()} on {platform.node()}"
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, owner.encode(), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous holder removed the file while this process waited


def _is_in_place(descriptor: int, folder: Path) -> bool:
    """Return whether the locked file is still the file of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(folder / _LOCK_FILE))
    except FileNotFoundError:
        return False


def _flock(descriptor: int, folder: Path) -> bool:
    """Lock a file; return False if locks are unsupported."""
    if fcntl is None:
        return False
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _HELD:
                return False
            time.sleep(_PAUSE)
        else:
            return True
    owner = os.pread(descriptor, 100, 0).decode(errors="replace") or "unknown"
    raise OutputFolderError(
        f"{folder}: process {owner} trains there; wait for its end, or choose another --output"
    )
