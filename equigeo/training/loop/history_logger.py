"""Callbacks that forward the history of a run line by line."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from equigeo._core.files import replace_file
from equigeo.training.loop.lightning import L
from equigeo.training.run_folder import RunRecord

_NO_MEASURES = ("epoch", "threads")


class HistoryLogger(L.Callback, ABC):
    """Base class of callbacks that receive every finished epoch after it is saved."""

    @abstractmethod
    def on_recorded(self, record: RunRecord) -> None:
        """Forward the last line of the history, in the first process."""

    def catch_up(self, record: RunRecord) -> None:
        """Forward a line that an earlier session did not forward, in the first process."""
        if record.was_behind:
            self.on_recorded(record)

    def close(self) -> None:
        """Close open resources, in the first process."""


class TableLogger(HistoryLogger):
    """Write the history as a table to ``log.csv`` in the folder of the run."""

    def on_recorded(self, record: RunRecord) -> None:
        """Write the whole table atomically, without gaps or duplicates after interruptions."""
        names = dict.fromkeys(name for line in record.history for name in line)
        text = io.StringIO()
        table = csv.DictWriter(text, list(names), lineterminator="\n")
        table.writeheader()
        table.writerows(record.history)  # None is an empty cell
        replace_file(record.folder.log, text.getvalue())

    def catch_up(self, record: RunRecord) -> None:
        """Write the table, which may lack lines of the history."""
        self.on_recorded(record)


class LightningLogger(HistoryLogger):
    """Forward the history to a Lightning logger, with the epoch as the step."""

    def __init__(
        self,
        logger: Any,  # not opened yet
    ) -> None:
        self._logger = logger
        self._is_described = False

    def on_recorded(self, record: RunRecord) -> None:
        """Log the configuration once, and the measures of the last epoch."""
        if not self._is_described:
            self._logger.log_hyperparams(record.description["train"])
            self._is_described = True
        line = record.history[-1]
        measured = {k: v for k, v in line.items() if v is not None and k not in _NO_MEASURES}
        self._logger.log_metrics(measured, step=line["epoch"])
        self._logger.save()  # a run may be killed at any moment

    def close(self) -> None:
        """Finalize the logger."""
        self._logger.finalize("success")

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Close the logger."""
        if trainer.is_global_zero:
            self.close()


def catch_up(
    record: RunRecord,
    callbacks: Iterable[L.Callback],
    *,
    is_over: bool = False,  # also close them, as no training follows
) -> None:
    """Forward the last epoch of a resumed run to the loggers among the callbacks."""
    for callback in callbacks if record.history else ():
        if isinstance(callback, HistoryLogger):
            callback.catch_up(record)
            if is_over and record.was_behind:
                callback.close()
