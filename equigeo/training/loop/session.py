"""Optional callbacks of a session: its time limit, and loggers of the history."""

from __future__ import annotations

import os
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

LOGGERS: Final = ("csv", "tensorboard", "wandb", "mlflow")
_PROJECT: Final = "equigeo"
_LONGEST = 525_600.0  # minutes of a year


def time_limit(minutes: float) -> list[Any]:
    """Return the Lightning callbacks that end training after the first step past ``minutes``.

    A checkpoint is written there, and resuming continues with the next step; the final weights do
    not depend on where sessions end.

    Examples
    --------
    >>> len(time_limit(0.5))
    1
    """
    if not 0 < minutes <= _LONGEST:
        raise ValueError(
            "the time limit must be a positive number of minutes, at most "
            f"{_LONGEST:.0f}, got {minutes}"
        )
    from equigeo.training.loop.module import L

    duration = max(timedelta(minutes=minutes), timedelta.resolution)  # 0 would allow no step
    return [L.pytorch.callbacks.Timer(duration, verbose=False)]


def log_history(logger: Any, output: Path) -> list[Any]:
    """Return the Lightning callbacks that log every epoch.

    Parameters
    ----------
    logger : {"csv", "tensorboard", "wandb", "mlflow"} or lightning.pytorch.loggers.Logger
        ``csv`` writes ``log.csv`` and ``tensorboard`` writes ``tensorboard`` in the folder of the
        run. ``wandb`` and ``mlflow`` name the run like the folder, in the project ``equigeo`` or
        ``$WANDB_PROJECT`` or ``$MLFLOW_EXPERIMENT_NAME``, and read keys and addresses from the
        environment. Without an address MLflow writes ``mlruns`` in the folder of the run.
    output : Path, folder of the run

    Examples
    --------
    >>> [type(callback).__name__ for callback in log_history("csv", Path("runs/demo"))]
    ['HistoryLogger']
    """
    if isinstance(logger, str) and logger not in LOGGERS:
        raise ValueError(
            f"logger must be {' or '.join(LOGGERS)}, or one of Lightning, got {logger!r}"
        )
    if isinstance(logger, str) and logger != "csv" and find_spec(logger) is None:
        raise ImportError(f"the logger {logger} needs {logger}: pip install {logger}")
    from equigeo.training.loop.fit import HistoryLogger
    from equigeo.training.loop.module import L

    if logger == "csv":
        return [HistoryLogger()]
    loggers = L.pytorch.loggers
    if isinstance(logger, str):
        logger = _made(loggers, logger, output)
    if not isinstance(logger, loggers.Logger):
        raise ValueError(f"logger must be one of Lightning, got {type(logger).__name__}")
    return [HistoryLogger(logger)]


def _made(loggers: Any, name: str, output: Path) -> Any:
    """Build a Lightning logger, which opens nothing yet."""
    if name == "tensorboard":
        return loggers.TensorBoardLogger(
            output, name="tensorboard", version="", default_hp_metric=False
        )
    run = output.resolve().name
    if name == "wandb":
        project = os.environ.get("WANDB_PROJECT", _PROJECT)
        return loggers.WandbLogger(name=run, project=project, save_dir=output)
    return loggers.MLFlowLogger(
        experiment_name=os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT),
        run_name=run,
        tracking_uri=os.environ.get("MLFLOW_TRACKING_URI"),
        save_dir=str(output.resolve() / "mlruns"),
    )
