"""Training of any task, from configuration to what was trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from equigeo.training.fit_plan import FitPlan
from equigeo.training.run_config import RunConfig
from equigeo.training.run_folder import RunFolder
from equigeo.training.train_run import train_run
from equigeo.training.trained_model import TrainedModel

if TYPE_CHECKING:
    from equigeo.training.lightning import L

_Trained = TypeVar("_Trained", bound=TrainedModel)


def train_model(
    trained: type[_Trained],
    config: RunConfig,
    output: Path,
    plan: Callable[[], FitPlan],
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    callbacks: Sequence[L.Callback] = (),
) -> _Trained:
    """Train and write ``config.json``, ``history.json`` and ``model.ckpt``.

    The last two are written after every epoch, and every five minutes within long ones. The run
    may be killed at any moment; resumed, it ends with the weights of an uninterrupted one. Global
    random generators are left as found.

    Parameters
    ----------
    trained : type
        What comes out; it names the task.
    config : RunConfig
        What to do.
    output : Path
        Folder of the run.
    plan : callable
        Builds model and data, after a first look at the folder and before anything is written.
    resume : bool
        Continue the run in ``output``, if there is one.
    overwrite : bool
        Replace the run in ``output``.
    progress : bool
        Show progress on standard error.
    callbacks : sequence of Lightning callbacks
        Added to those of the run, such as :func:`equigeo.training.time_limit`.

    Returns
    -------
    trained
        Read back from the checkpoint.

    Raises
    ------
    ValueError
        If the data are missing, damaged, too few, or do not fit the configuration.
    OutputFolderError
        If ``output`` is unwritable or holds another run.
    CheckpointError
        If the checkpoint to resume is unusable.
    ImportError
        If Lightning is not installed.
    KeyboardInterrupt
        If the user interrupts; the last checkpoint is in place.
    """
    folder = RunFolder(output, trained.config_type)
    train_run(
        folder,
        trained.task,
        config,
        plan,
        resume=resume,
        overwrite=overwrite,
        progress=progress,
        callbacks=callbacks,
    )
    return trained.load(folder.checkpoint)
