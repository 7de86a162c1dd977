"""Preview of a run: data and model are built, nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from equigeo.training.files.run_folder import RunFolder
from equigeo.training.files.run_record import RunRecord
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.random_state import isolated_streams
from equigeo.training.resumable_state import resumable_state
from equigeo.training.run_config import RunConfig
from equigeo.training.trained_model import TrainedModel


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
        resumed = None
        description = fit_plan.description()
        if resume:
            resumed = resumable_state(folder.checkpoint, trained, fit_plan, description)
    done = ""
    if resumed is not None:
        record = RunRecord(folder, trained.task, description)
        record.take_up(resumed)
        done = config.recipe.progress(resumed["epochs"], record.elapsed())
    classes = f" of {len(fit_plan.classes)} classes" if fit_plan.classes else ""
    samples, parameters = len(fit_plan.train), sum(x.numel() for x in fit_plan.model.parameters())
    return [
        ("samples", f"{samples:,}{classes}, {fit_plan.steps_per_epoch:,} steps per epoch"),
        ("model", f"{type(fit_plan.model).__name__}, {parameters:,} parameters"),
        ("done", done or "nothing, it is a new run"),
    ]
