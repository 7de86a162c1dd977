"""Callbacks that pass the history of a run on, line by line."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from equigeo.datasets.replace_file import replace_file
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

    def catch_up(self, record: RunRecord) -> None:
        """Pass on what an earlier session may have been killed before; in the first process.

        Parameters
        ----------
        record : RunRecord
            Of a run that is resumed, with one finished epoch or more.
        """
        if record.was_behind:
            self.on_recorded(record)

    def close(self) -> None:
        """Close what is open, in the first process."""


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

    def catch_up(self, record: RunRecord) -> None:
        """Write the table, which may be behind where the history is not."""
        self.on_recorded(record)


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

    def close(self) -> None:
        """Say that the run has ended."""
        self._logger.finalize("success")

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Close it."""
        if trainer.is_global_zero:
            self.close()


def catch_up(record: RunRecord, callbacks: Iterable[L.Callback], *, is_over: bool = False) -> None:
    """Tell the loggers among callbacks of the last epoch of a run that is resumed.

    Parameters
    ----------
    record : RunRecord
        What the checkpoint says of the run.
    callbacks : iterable of Lightning callbacks
        Of this session.
    is_over : bool
        Close them: no training follows, which would.
    """
    for callback in callbacks if record.history else ():
        if isinstance(callback, HistoryLogger):
            callback.catch_up(record)
            if is_over and record.was_behind:
                callback.close()
