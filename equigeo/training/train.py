"""Training of any task from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from equigeo.training.config import RunConfig
from equigeo.training.plan import FitPlan
from equigeo.training.process import exit_on_sigterm, isolated_streams
from equigeo.training.resume import resumable_state
from equigeo.training.run_folder import RunFolder, RunRecord
from equigeo.training.trained_model import TrainedModel

if TYPE_CHECKING:
    from equigeo.training.loop.lightning import L


_Trained = TypeVar("_Trained", bound=TrainedModel[Any])


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

    The last two are written after every epoch, and every five minutes within long ones. A run that
    was killed at any moment and resumed ends with the weights of an uninterrupted one. The folder
    is locked against other processes if the file system supports it. Global random generators are
    restored.

    Parameters
    ----------
    trained : type, result of the run; it names the task
    output : Path, folder of the run
    plan : callable
        Builds model and data, after a first check of the folder and before anything is written.
    resume, overwrite : bool
        Continue or replace the run in ``output``.
    progress : bool, show progress on standard error
    callbacks : sequence of Lightning callbacks
        For example :func:`equigeo.training.time_limit`. A callback that sets
        ``trainer.should_stop`` ends the session after the present step, with a checkpoint.

    Raises
    ------
    ValueError
        If the data are unusable, or training diverges: a loss, a measure or a weight is not finite.
    OutputFolderError
        If ``output`` is unwritable, holds another run, or another process trains there.
    CheckpointError
        If the checkpoint to resume is unusable.
    KeyboardInterrupt, SystemExit
        On Ctrl-C, and with status 143 on SIGTERM without another handler; the last checkpoint is
        kept.

    Examples
    --------
    >>> import tempfile
    >>> from equigeo.mds import AttentionModel, AttentionModelConfig
    >>> from equigeo.tasks import TravellingSalesman
    >>> from equigeo.tasks.tsp import TourConfig, TrainedTourModel
    >>> from equigeo.training import Recipe
    >>> task, recipe = TravellingSalesman(), Recipe(epochs=2, batch_size=8, learning_rate=1e-3)
    >>> config = TourConfig(recipe=recipe, cities=5, instances=16)
    >>> model = AttentionModel(AttentionModelConfig("mds", 8, 2, 1, 8))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = lambda: task.plan(config, task.load(config), model)
    ...     trained = train_model(TrainedTourModel, config, Path(folder) / "run", plan)
    >>> trained.epochs_done
    2
    """
    # Lightning takes seconds to import, and checkpoints are used without it; where it is missing,
    # this says so before anything is written.
    from equigeo.training.loop.callbacks import catch_up
    from equigeo.training.loop.fit import fit

    folder = RunFolder(output, trained.config_type)
    folder.check(config, resume=resume, overwrite=overwrite)
    with exit_on_sigterm(), isolated_streams():
        fit_plan = plan()
        fit_plan.check()
        with folder.lock():
            # only now: another process may have trained here in the meantime
            record, resumed = _record(folder, trained, fit_plan, resume)
            folder.begin(config, resume=resume, overwrite=overwrite)
            record.samples = fit_plan.train.digests()
            if resumed is not None:
                record.catch_up()
            if resumed is None or not config.recipe.is_done(resumed["epochs"], record.elapsed()):
                fit(fit_plan, record, resumed, progress=progress, callbacks=callbacks)
            else:
                catch_up(record, callbacks, is_over=True)
            return trained.load(folder.checkpoint)


def preview_run(
    trained: type[TrainedModel[Any]],
    config: RunConfig,
    output: Path,
    plan: Callable[[], FitPlan],
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> list[tuple[str, str]]:
    """Run the checks of ``train_model`` that precede writing; return names and values to print."""
    folder = RunFolder(output, trained.config_type)
    folder.check(config, resume=resume, overwrite=overwrite)
    with isolated_streams():
        fit_plan = plan()
        fit_plan.check()
        record, resumed = _record(folder, trained, fit_plan, resume)
    done = "nothing, it is a new run"
    if resumed is not None:
        done = config.recipe.progress(resumed["epochs"], record.elapsed())
    classes = f" of {len(fit_plan.classes)} classes" if fit_plan.classes else ""
    samples, parameters = len(fit_plan.train), sum(x.numel() for x in fit_plan.model.parameters())
    return [
        ("samples", f"{samples:,}{classes}, {fit_plan.steps_per_epoch:,} steps per epoch"),
        ("model", f"{type(fit_plan.model).__name__}, {parameters:,} parameters"),
        ("done", done),
    ]


def _record(
    folder: RunFolder, trained: type[TrainedModel[Any]], plan: FitPlan, resume: bool
) -> tuple[RunRecord, dict[str, Any] | None]:
    """Return the record of a run and its validated state to resume, None for a new run."""
    record = RunRecord(folder, trained.task, plan.description())
    if not resume:
        return record, None
    resumed = resumable_state(folder.checkpoint, trained, plan, record.description)
    if resumed is not None:
        record.history, record.seconds = resumed["history"], resumed.get("seconds", 0.0)
    return record, resumed
