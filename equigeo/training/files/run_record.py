"""What a run has done so far, and the two files that say it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from equigeo.datasets.replace_file import replace_file
from equigeo.nn.brief import brief_fields
from equigeo.training.files.checkpoint import Checkpoint
from equigeo.training.files.run_folder import RunFolder


@dataclass
class RunRecord:
    """The history of a run and its place on the disk.

    Parameters
    ----------
    folder : RunFolder
        Where to write.
    task : str
        The ``task`` of the checkpoint.
    description : dict of JSON types
        The ``config`` of the checkpoint.
    history : list of dict
        Epochs that are complete.
    seconds : float
        Time spent on the epoch under way by earlier sessions.
    samples : Tensor, (samples, 2), int64, optional
        Digests of the training samples and of their labels.
    was_behind : bool
        Whether an earlier session was killed before its last epoch was in the history file.
    """

    folder: RunFolder
    task: str
    description: dict[str, Any]
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    samples: Tensor | None = None
    was_behind: bool = False

    __repr__ = brief_fields

    def take_up(self, resumed: dict[str, Any]) -> None:
        """Go on from what :func:`equigeo.training.resumable_state.resumable_state` found."""
        self.history, self.seconds = resumed["history"], resumed.get("seconds", 0.0)

    def catch_up(self) -> None:
        """Write the history where a session was killed between the checkpoint and it."""
        file, text = self.folder.history, self._text()
        self.was_behind = not file.exists() or file.read_bytes() != text.encode()
        if self.was_behind:
            replace_file(file, text)

    def elapsed(self) -> float:
        """Seconds of training before this session, and in epochs that it has finished."""
        return float(sum(line["seconds"] for line in self.history)) + self.seconds

    def save(
        self,
        state: dict[str, Tensor],
        training: dict[str, Any],
        novelty: dict[str, Tensor] | None = None,
    ) -> None:
        """Write the checkpoint, then the history, each atomically.

        Parameters
        ----------
        state : dict of Tensor
            Weights to evaluate.
        training : dict
            What resuming needs, besides history and seconds.
        novelty : dict of Tensor, optional
            What tells samples unlike those of the training, of a run that is finished.
        """
        training = training | {"history": self.history, "seconds": self.seconds}
        if self.samples is not None:
            training["samples"] = self.samples
        checkpoint = Checkpoint(self.task, self.description, state, training, novelty or {})
        checkpoint.save(self.folder.checkpoint)
        replace_file(self.folder.history, self._text())

    def _text(self) -> str:
        return json.dumps(self.history, indent=1, allow_nan=False) + "\n"
