"""Progress of a run and its two files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from equigeo._brief import brief_fields
from equigeo.datasets.replace_file import replace_file
from equigeo.training.files.checkpoint import Checkpoint
from equigeo.training.files.run_folder import RunFolder


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

    def take_up(self, resumed: dict[str, Any]) -> None:
        """Continue from the result of :func:`equigeo.training.resumable_state.resumable_state`."""
        self.history, self.seconds = resumed["history"], resumed.get("seconds", 0.0)

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
