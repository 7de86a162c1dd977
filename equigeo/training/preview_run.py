"""Preview of a run: data and model are built, nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equigeo.training.files.run_folder import RunFolder
from equigeo.training.files.run_record import RunRecord
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.random_state import isolated_streams
from equigeo.training.resumable_state import resumable_state
from equigeo.training.run_config import RunConfig
from equigeo.training.trained_model import TrainedModel


@dataclass(frozen=True)
class RunPreview:
    """Contents and length of a planned run."""

    samples: int
    classes: int  # 0 without classes
    steps: int  # per epoch
    model: str  # class name
    parameters: int
    done: str  # progress of earlier sessions; empty for a new run

    def lines(self) -> list[tuple[str, str]]:
        """Return name and description of each item."""
        classes = f" of {self.classes} classes" if self.classes else ""
        return [
            ("samples", f"{self.samples:,}{classes}, {self.steps:,} steps an epoch"),
            ("model", f"{self.model}, {self.parameters:,} parameters"),
            ("done", self.done or "nothing, it is a new run"),
        ]


def preview_run(
    trained: type[TrainedModel[Any]],
    config: RunConfig,
    output: Path,
    plan: Callable[[], FitPlan],
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> RunPreview:
    """Run all checks that :func:`equigeo.training.train_model` runs before it writes."""
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
    return RunPreview(
        samples=len(fit_plan.train),
        classes=len(fit_plan.classes),
        steps=fit_plan.steps_per_epoch,
        model=type(fit_plan.model).__name__,
        parameters=sum(x.numel() for x in fit_plan.model.parameters()),
        done=done,
    )
