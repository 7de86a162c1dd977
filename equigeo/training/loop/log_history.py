"""Where the history of a run goes beside its own file."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

LOGGERS: Final = ("csv", "tensorboard")


def log_history(logger: Any, output: Path) -> list[Any]:
    """Give the callbacks that log every epoch.

    Parameters
    ----------
    logger : {"csv", "tensorboard"} or lightning.pytorch.loggers.Logger
        ``csv`` keeps ``log.csv`` in the folder of the run, ``tensorboard`` writes events into
        ``tensorboard`` there, and any other logger of Lightning gets the same numbers; those of
        services, such as ``WandbLogger`` and ``MLFlowLogger``, the user makes with what they need.
    output : Path
        Folder of the run.

    Returns
    -------
    list of Lightning callbacks
        For :func:`equigeo.training.train_model`.

    Raises
    ------
    ValueError
        If there is no such logger.
    ImportError
        If Lightning, or what the logger needs, is not installed.

    Examples
    --------
    >>> [type(callback).__name__ for callback in log_history("csv", Path("runs/demo"))]
    ['TableLogger']
    """
    if isinstance(logger, str) and logger not in LOGGERS:
        raise ValueError(
            f"logger must be {' or '.join(LOGGERS)}, or one of Lightning, got {logger!r}"
        )
    if logger == "tensorboard" and find_spec("tensorboard") is None:
        raise ImportError("the logger tensorboard needs tensorboard: pip install tensorboard")
    from equigeo.training.loop.history_logger import LightningLogger, TableLogger
    from equigeo.training.loop.lightning import L

    if logger == "csv":
        return [TableLogger()]
    loggers = L.pytorch.loggers
    if logger == "tensorboard":
        logger = loggers.TensorBoardLogger(
            output, name="tensorboard", version="", default_hp_metric=False
        )
    if not isinstance(logger, loggers.Logger):
        raise ValueError(f"logger must be one of Lightning, got {type(logger).__name__}")
    return [LightningLogger(logger)]
