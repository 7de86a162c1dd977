"""Output folder of a training run, its lock, and its history."""

from __future__ import annotations

import errno
import json
import os
import platform
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from equigeo._core.brief import brief_fields, shown
from equigeo._core.files import remove_unfinished, replace_file
from equigeo._core.text import shorten
from equigeo.training.checkpoint import Checkpoint
from equigeo.training.config import RunConfig

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LARGEST = 1 << 20  # bytes of a configuration, which has about a thousand
_LOCK_FILE = ".lock"
_HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_ATTEMPTS = 5  # within a tenth of a second: ``refuse_locked`` itself holds the lock for an instant
_PAUSE = 0.02  # seconds


class OutputFolderError(ValueError):
    """Output folder that cannot take a run; the message names it, the cause and the remedy.

    Examples
    --------
    >>> from equigeo.tasks.tsp import TourConfig
    >>> RunFolder(Path("/dev/null/run"), TourConfig).check(TourConfig())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    equigeo.training.run_folder.OutputFolderError: /dev/null/run: cannot be written (...
    """


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


@dataclass(frozen=True)
class RunFolder:
    """File names of a run, and the rules for starting in a folder that has one."""

    path: Path  # created by `begin`
    config_type: type[RunConfig]

    @property
    def checkpoint(self) -> Path:
        """Checkpoint with the last epoch's model and the state for resuming."""
        return self.path / "model.ckpt"

    @property
    def config(self) -> Path:
        """Configuration of the run."""
        return self.path / "config.json"

    @property
    def history(self) -> Path:
        """Loss and accuracy of every epoch."""
        return self.path / "history.json"

    @property
    def log(self) -> Path:
        """History as a table, if requested."""
        return self.path / "log.csv"

    def is_used(self) -> bool:
        """Whether a run has started in the folder."""
        return self.config.exists() or self.checkpoint.exists()

    def saved_config(self) -> RunConfig:
        """Load the configuration of the run in the folder, or raise ``OutputFolderError``."""
        if not self.config.exists():
            raise OutputFolderError(
                f"{self.config}: no such file, so the run in this folder cannot be resumed; "
                "start over with --overwrite, or choose another --output"
            )
        try:
            return self.config_type.from_dict(read_json(self.config))
        except ValueError as error:
            raise OutputFolderError(
                f"{self.config}: not a configuration ({shorten(str(error), 200)}); "
                "start over with --overwrite"
            ) from error

    def has_begun(self, config: RunConfig) -> bool:
        """Return whether the folder has this run to continue, not none or one to replace."""
        try:
            return self.saved_config() == config
        except ValueError:
            return False

    def check(self, config: RunConfig, *, resume: bool = False, overwrite: bool = False) -> None:
        """Raise ``OutputFolderError`` if a run may not start here, without changing anything."""
        self._check_writable()
        refuse_locked(self.path)
        self._check_run(config, resume=resume, overwrite=overwrite)

    def _check_run(self, config: RunConfig, *, resume: bool, overwrite: bool) -> None:
        """Raise if the content of the folder prevents a run."""
        start = getattr(config, "start_from", "")  # of tasks that have it
        if overwrite and start and Path(start).resolve() == self.checkpoint.resolve():
            raise OutputFolderError(
                f"{start}: the run starts from this checkpoint, which --overwrite would remove; "
                "choose another --output"
            )
        if overwrite or not self.is_used():
            return
        if not resume and self.config.exists():
            raise OutputFolderError(
                f"{self.path}: already holds a training run; continue it with --resume, "
                "replace it with --overwrite, or choose another --output"
            )
        saved, asked = self.saved_config().to_dict(), config.to_dict()
        differing = list(_differences(saved, asked))
        if differing:
            raise OutputFolderError(
                f"{self.path}: holds a run with another configuration "
                f"({shorten('; '.join(differing), 200)}); resume it with its own, replace it with "
                "--overwrite, or choose another --output"
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Create and lock the folder for this process; remove a new folder that stays empty."""
        is_new = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputFolderError(self._unwritable(str(error.strerror))) from error
        try:
            with lock_folder(self.path):
                yield
        finally:
            if is_new:
                with suppress(OSError):  # there is something in it
                    self.path.rmdir()

    def begin(self, config: RunConfig, *, resume: bool = False, overwrite: bool = False) -> None:
        """Write the configuration in the locked folder; with ``overwrite``, remove an older run."""
        self._check_writable()
        self._check_run(config, resume=resume, overwrite=overwrite)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for file in (self.checkpoint, self.history, self.log, self.config):
                remove_unfinished(file)
            if not resume:
                for file in self._results():
                    file.unlink(missing_ok=True)
            text = json.dumps(config.to_dict(), indent=1) + "\n"
            replace_file(self.config, text)
        except OSError as error:
            raise OutputFolderError(self._unwritable(str(error.strerror))) from error

    def _results(self) -> list[Path]:
        """Return results of an older run that would be mistaken for those of the new one."""
        events = (self.path / "tensorboard").glob("events.out.tfevents.*")
        return [self.checkpoint, self.history, self.log, *self.path.glob("report*.html"), *events]

    def _check_writable(self) -> None:
        existing = self.path
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        if not existing.is_dir():
            raise OutputFolderError(self._unwritable(f"{existing} is not a folder"))
        if not os.access(existing, os.W_OK | os.X_OK):
            raise OutputFolderError(self._unwritable(f"no permission to write in {existing}"))

    def _unwritable(self, cause: str) -> str:
        return f"{self.path}: cannot be written ({cause}); choose another --output"


def _differences(saved: dict[str, Any], asked: dict[str, Any], within: str = "") -> Iterator[str]:
    """Return the fields that differ, with the fields of a recipe listed separately."""
    for name, value in saved.items():
        other = asked[name]
        is_nested = isinstance(value, dict) and isinstance(other, dict)
        if is_nested and value.keys() == other.keys():
            yield from _differences(value, other, f"{within}{name}.")
        elif value != other:
            yield f"{within}{name} is {shown(value)}, asked {shown(other)}"


@dataclass
class RunRecord:
    """History of a run and its location on disk."""

    folder: RunFolder
    task: str  # of the checkpoint
    description: dict[str, Any]  # `config` of the checkpoint, in JSON types
    history: list[dict[str, Any]] = field(default_factory=list)  # complete epochs
    seconds: float = 0.0  # spent on the current epoch by earlier sessions
    samples: Tensor | None = None  # (samples, 2) digests of training samples and labels
    was_behind: bool = False  # an earlier session ended before writing its last epoch

    __repr__ = brief_fields

    def catch_up(self) -> None:
        """Write the history if an earlier session ended between checkpoint and history."""
        file, text = self.folder.history, self._text()
        self.was_behind = not file.exists() or file.read_bytes() != text.encode()
        if self.was_behind:
            replace_file(file, text)

    def elapsed(self) -> float:
        """Return seconds of training before this session and in its finished epochs."""
        return float(sum(line["seconds"] for line in self.history)) + self.seconds

    def save(
        self,
        state: dict[str, Tensor],  # weights to evaluate
        training: dict[str, Any],  # state for resuming, without history and seconds
        novelty: dict[str, Tensor] | None = None,  # of a finished run
    ) -> None:
        """Write the checkpoint, then the history, each atomically."""
        training = training | {"history": self.history, "seconds": self.seconds}
        if self.samples is not None:
            training["samples"] = self.samples
        checkpoint = Checkpoint(self.task, self.description, state, training, novelty or {})
        checkpoint.save(self.folder.checkpoint)
        replace_file(self.folder.history, self._text())

    def _text(self) -> str:
        return json.dumps(self.history, indent=1, allow_nan=False) + "\n"
