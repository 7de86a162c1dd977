"""Callbacks that pass the history of a run on, line by line."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from typing import Any

from equigeo.training.files.replace_file import replace_file
from equigeo.training.files.run_record import RunRecord
from equigeo.training.loop.lightning import L

_NO_MEASURES = ("epoch", "threads")


class HistoryLogger(L.Callback, ABC):
    """A callback that is told of every epoch that is finished, after it is saved.

    Its hooks would come too early: the history has its line when all of them have run.

    Examples
    --------
    >>> class Printed(HistoryLogger):
    ...     def on_recorded(self, record):
    ...         print(record.history[-1])
    """

    @abstractmethod
    def on_recorded(self, record: RunRecord) -> None:
        """Pass on the last line of the history; in the first process.

        Parameters
        ----------
        record : RunRecord
            With all epochs that are finished.
        """


class TableLogger(HistoryLogger):
    """Keep the history as a table, ``log.csv`` in the folder of the run.

    The whole table is written every time: after an interruption it has no gap and no line twice.
    """

    def on_recorded(self, record: RunRecord) -> None:
        """Write the file; it is the old or the new one at any moment."""
        names = dict.fromkeys(name for line in record.history for name in line)
        text = io.StringIO()
        table = csv.DictWriter(text, list(names), lineterminator="\n")
        table.writeheader()
        table.writerows(record.history)  # None is an empty cell
        replace_file(record.folder.log, text.getvalue())


class LightningLogger(HistoryLogger):
    """Pass the history on to a logger of Lightning; the step of a line is its epoch.

    Parameters
    ----------
    logger : lightning.pytorch.loggers.Logger
        Not opened yet.
    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._is_described = False

    def on_recorded(self, record: RunRecord) -> None:
        """Log the configuration once, and what was measured in the last epoch."""
        if not self._is_described:
            self._logger.log_hyperparams(record.description["train"])
            self._is_described = True
        line = record.history[-1]
        measured = {k: v for k, v in line.items() if v is not None and k not in _NO_MEASURES}
        self._logger.log_metrics(measured, step=line["epoch"])
        self._logger.save()  # a run may be killed at any moment

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Close it."""
        if trainer.is_global_zero:
            self._logger.finalize("success")
