"""One process at a time in the folder of a run."""

from __future__ import annotations

import errno
import os
import platform
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equigeo.training.files.errors import OutputFolderError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_NAME = ".lock"
_HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_ATTEMPTS = 5  # within a tenth of a second: ``refuse_locked`` itself holds the lock for an instant
_PAUSE = 0.02


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep other processes, and other threads, from training in a folder.

    The lock is on a file ``.lock`` in the folder, by ``flock``: the operating system releases it
    when the process ends, however it ends, so there is none to remove by hand. It holds between
    processes of one machine, and between machines where the file system passes locks on, as NFS
    does since Linux 2.6.12. Where there are none (Windows, some network file systems), a warning
    says so and nothing is locked; files are then still old or new as a whole, but two runs may
    replace each other's.

    Parameters
    ----------
    folder : Path
        It must exist.

    Raises
    ------
    OutputFolderError
        If another process holds the lock; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with lock_folder(Path(folder)):
    ...         refuse_locked(Path(folder))
    Traceback (most recent call last):
        ...
    equigeo.training.files.errors.OutputFolderError: ...: process ... trains there; wait for its ...
    """
    descriptor = _acquire(folder)
    try:
        yield
    finally:
        if descriptor is not None:
            # removed while it is locked, so that nobody can have locked another file by this name
            (folder / _NAME).unlink(missing_ok=True)
            os.close(descriptor)


def refuse_locked(folder: Path) -> None:
    """See whether another process trains in a folder, without touching anything.

    Parameters
    ----------
    folder : Path
        It need not exist.

    Raises
    ------
    OutputFolderError
        If so.
    """
    try:
        descriptor = os.open(folder / _NAME, os.O_RDWR)
    except OSError:  # no such file, so there is no lock
        return
    try:
        _flock(descriptor, folder)
    finally:
        os.close(descriptor)


def _acquire(folder: Path) -> int | None:
    """Give the descriptor whose lock is held, or None where there are no locks."""
    while True:
        descriptor = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _flock(descriptor, folder):
                warnings.warn(
                    f"{folder}: this file system has no locks; do not train there twice at a time",
                    stacklevel=4,
                )
                (folder / _NAME).unlink(missing_ok=True)
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
        os.close(descriptor)  # the holder of before removed the file while this process waited


def _is_in_place(descriptor: int, folder: Path) -> bool:
    """Whether the locked file is the one that others will find under its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(folder / _NAME))
    except FileNotFoundError:
        return False


def _flock(descriptor: int, folder: Path) -> bool:
    """Lock a file; false where there are no locks."""
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
