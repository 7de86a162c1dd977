"""Import of Lightning with a remedy if it is missing, and without its advice."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import lightning as L
except ImportError as _error:
    raise ImportError("training needs Lightning: pip install 'lightning>=2.6,<3'") from _error

__all__ = ["L", "quiet_lightning", "silence_lightning"]

_ADVICE = (
    ".*does not have many workers.*",  # batches are assembled in memory
    ".*GPU available but not used.*",
    ".*isinstance\\(treespec, LeafSpec\\).*",  # Lightning's own use of a deprecated test
    ".*is smaller than the logging interval.*",
    "Grad strides do not match bucket view strides",  # of matrices with one row
)
_LOGGERS = ("lightning.pytorch", "lightning.fabric")


def silence_lightning() -> None:
    """Hide Lightning's advice for the rest of the process."""
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in _ADVICE:
        warnings.filterwarnings("ignore", message=message)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide hardware inventories and tips in a block; other warnings stay."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        with warnings.catch_warnings():
            silence_lightning()
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
