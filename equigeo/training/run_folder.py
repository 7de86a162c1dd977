"""Output folder and history of a training run."""

from __future__ import annotations

import json
import os
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
from equigeo.training.files import OutputFolderError, lock_folder, read_config, refuse_locked


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
            return read_config(self.config, self.config_type)
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
