"""Training and resuming of runs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from equigeo._core.brief import shown
from equigeo._core.config import Config
from equigeo._core.text import shorten
from equigeo.training.checkpoint import Checkpoint, CheckpointError, check_weights
from equigeo.training.config import RunConfig, build_optimizer
from equigeo.training.objective import FitPlan
from equigeo.training.process import exit_on_sigterm, isolated_streams
from equigeo.training.run_folder import RunFolder, RunRecord
from equigeo.training.trained_model import MISFITS, TrainedModel, read_history, read_samples

if TYPE_CHECKING:
    from equigeo.training.loop.module import L


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
    # this raises before anything is written.
    from equigeo.training.loop.fit import catch_up, fit

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
    what = "classes" if fit_plan.objective.measure == "accuracy" else "targets"
    classes = f" of {len(fit_plan.classes)} {what}" if fit_plan.classes else ""
    samples, weights = len(fit_plan.train), list(fit_plan.model.parameters())
    parameters = sum(x.numel() for x in weights)
    learned = sum(x.numel() for x in weights if x.requires_grad)
    frozen = f", {learned:,} of them learned" if learned < parameters else ""
    return [
        ("samples", f"{samples:,}{classes}, {fit_plan.steps_per_epoch:,} steps per epoch"),
        ("model", f"{type(fit_plan.model).__name__}, {parameters:,} parameters{frozen}"),
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


# What a schedule counts; everything else in its state follows from the recipe.
_COUNTED = {"last_epoch", "_step_count", "_last_lr", "_get_lr_called_within_step", "_is_initial"}


def resumable_state(
    path: Path,
    trained: type[TrainedModel[Any]],
    plan: FitPlan,
    description: dict[str, Any],  # `config` that the run would write, in JSON types
) -> dict[str, Any] | None:
    """Return the validated training state of a checkpoint; None if there is no checkpoint."""
    if not path.exists():
        return None
    checkpoint = Checkpoint.load(path, trained.task)
    saved = dict(checkpoint.config)
    if saved.get("model") != description["model"]:
        saved["model"] = _in_present_form(
            lambda: trained.build_for(checkpoint, plan.config).config, saved.get("model")
        )
    if saved.get("train") != description["train"]:
        given: Any = saved.get("train")
        saved["train"] = _in_present_form(lambda: trained.config_type.from_dict(given), given)
    for name in ("train", "model", "classes"):
        if saved.get(name) != description[name]:
            raise CheckpointError(
                f"{path}: was trained with another {name!r} configuration; "
                "start over with --overwrite, or choose another --output"
            )
    if "epochs" not in checkpoint.training:
        raise CheckpointError(
            f"{path}: holds no training state to resume; start over with --overwrite"
        )
    try:
        _check_samples(checkpoint.training, plan)
        _check_progress(checkpoint.training, plan)
        _check_optimization(checkpoint.training, plan)
    except MISFITS as error:
        raise CheckpointError(
            f"{path}: its training state cannot be resumed "
            f"({shorten(' '.join(str(error).split()), 200)}); start over with --overwrite"
        ) from error
    return checkpoint.training


def _in_present_form(read: Callable[[], Config], saved: Any) -> Any:
    """Return a saved configuration as this version writes it, or unchanged if it is unusable."""
    try:
        return read().to_dict()
    except MISFITS:
        return saved


def _check_samples(training: Mapping[str, Any], plan: FitPlan) -> None:
    """Raise if training samples, order or labels differ."""
    saved, given = read_samples(training), plan.train.digests()
    if saved is None or given is None or torch.equal(saved, given):
        return
    if len(saved) != len(given):
        what = f"it has {len(saved)} training samples, the data have {len(given)}"
    else:
        number = int((saved != given).any(dim=1).sum())
        what = f"{number} of its {len(saved)} training samples or their labels are others now"
    raise ValueError(f"{what}; bring back the data of the run")


def _check_progress(training: Mapping[str, Any], plan: FitPlan) -> None:
    """Raise for numbers of epochs, steps and seconds that the run cannot have."""
    epochs, step, seconds = training["epochs"], training.get("step", 0), training.get("seconds", 0)
    total = plan.config.recipe.epochs
    if not _is_whole(epochs, total) or not _is_whole(step, max(plan.steps_per_epoch - 1, 0)):
        raise ValueError(
            f"it has {shown(epochs)} epochs and {shown(step)} steps of {total} epochs of "
            f"{plan.steps_per_epoch} steps"
        )
    if len(read_history(dict(training), total)) != epochs:
        raise ValueError("its history has another number of epochs")
    _check_alike("seconds", seconds, 0.0)
    if not _is_whole(training.get("threads", 1), sys.maxsize):
        raise ValueError("its number of threads is not a natural number")
    if step:
        check_weights({"tally": torch.zeros(3)}, {"tally": training["tally"]})


def _is_whole(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _check_optimization(training: Mapping[str, Any], plan: FitPlan) -> None:
    """Raise for weights, optimizer or schedule of another plan."""
    weights, recipe = plan.model.state_dict(), plan.config.recipe
    check_weights(weights, training["weights"])
    if recipe.ema_decay:
        average = training["average"]
        _check_alike("updates", average["updates"], 0)
        if average["updates"]:
            check_weights(weights, average["state"])
    parameters = list(plan.model.parameters())
    optimizer, schedule = build_optimizer(parameters, recipe, plan.steps_per_epoch)
    _check_optimizer(training["optimizer"], optimizer.state_dict(), parameters)
    if schedule is not None:
        done = training["epochs"] * plan.steps_per_epoch + training.get("step", 0)
        counted = training["schedule"]["last_epoch"]
        # the last epoch of a run that ends by the clock is cut short
        if not (_is_whole(counted, done) if recipe.minutes else counted == done):
            raise ValueError(f"its schedule is not at step {done}")
        _check_schedule(training["schedule"], schedule)


def _check_optimizer(saved: Any, fresh: Any, parameters: list[nn.Parameter]) -> None:
    for group, own in zip(saved["param_groups"], fresh["param_groups"], strict=True):
        if group["params"] != own["params"]:
            raise ValueError("its optimizer has other parameters")
        for name in group.keys() & own.keys():  # versions of torch differ by a few
            _check_alike(name, group[name], own[name])
    for number, entries in saved["state"].items():
        if not _is_whole(number, len(parameters) - 1):
            raise ValueError(f"its optimizer has no parameter {shown(number)}")
        like = parameters[number].detach()
        expected = {n: like.new_zeros(()) if n == "step" else like for n in entries}
        check_weights(expected, entries)


def _check_schedule(saved: Any, fresh: LRScheduler) -> None:
    own = fresh.state_dict()
    for name, value in saved.items():
        if name in own:
            _check_alike(name, value, own[name], is_same=name not in _COUNTED)
        elif hasattr(fresh, name):  # would hide a method
            raise ValueError(f"its schedule has no entry {name!r}")


def _check_alike(name: str, saved: Any, fresh: Any, *, is_same: bool = False) -> None:
    """Raise if a saved value has another structure than a fresh one, or value if ``is_same``."""
    if isinstance(fresh, Mapping) and isinstance(saved, Mapping):
        alike = saved.keys() == fresh.keys()
        pairs = [(saved[key], fresh[key]) for key in fresh] if alike else []
    elif isinstance(fresh, (list, tuple)) and isinstance(saved, (list, tuple)):
        alike = len(saved) == len(fresh)
        pairs = list(zip(saved, fresh, strict=False))
    elif isinstance(fresh, (bool, str)) or fresh is None:
        alike = type(saved) is type(fresh) and (saved == fresh or not is_same)
        pairs = []
    else:
        # Floats may be rounded differently by other versions, so they only have to be finite.
        numbers = isinstance(fresh, (int, float)) and isinstance(saved, (int, float))
        alike = (
            numbers
            and not isinstance(saved, bool)
            and math.isfinite(saved)
            and (isinstance(fresh, float) or saved >= 0)
        )
        alike = alike and not (is_same and isinstance(fresh, int) and saved != fresh)
        pairs = []
    if not alike:
        raise ValueError(f"it has {name} = {shown(saved)}, expected the like of {shown(fresh)}")
    for part, own in pairs:
        _check_alike(name, part, own, is_same=is_same)
