"""``equigeo train``."""

from __future__ import annotations

import argparse
import os
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from equigeo.cli.parser import natural, positive
from equigeo.cli.train_affnist import AFFNIST
from equigeo.cli.train_meshes import MESHES
from equigeo.cli.train_pointcloud import POINT_CLOUDS
from equigeo.cli.train_task import TrainTask
from equigeo.cli.train_tsp import TOURS
from equigeo.training import RunConfig, RunFolder, TrainedModel, time_limit

TASKS = (MESHES, AFFNIST, POINT_CLOUDS, TOURS)

_RECIPE_OPTIONS: dict[str, dict[str, Any]] = {
    "epochs": {"type": positive, "metavar": "N"},
    "batch_size": {"type": positive, "metavar": "N"},
    "learning_rate": {"type": float, "metavar": "X", "help": "learning rate, or its peak"},
    "weight_decay": {"type": float, "metavar": "X"},
    "label_smoothing": {"type": float, "metavar": "X"},
    "logit_adjustment": {"type": float, "metavar": "X", "help": "1: rare classes count alike"},
    "jitter": {"type": float, "metavar": "X", "help": "noise on vertices or points"},
    "ema_decay": {"type": float, "metavar": "X", "help": "running average of weights"},
}
_SHORT = {"learning_rate": "lr"}


def add_parser(commands: Any) -> None:
    """Add the command and its tasks."""
    parser = commands.add_parser("train", help="train a model")
    tasks = parser.add_subparsers(title="tasks", required=True, metavar="TASK")
    for task in TASKS:
        options = tasks.add_parser(task.name, help=task.help)
        options.set_defaults(run=partial(_run, task))
        _add_run_options(options.add_argument_group("run"), task)
        task.add_data_options(options.add_argument_group("data"))
        group = options.add_argument_group("recipe (defaults belong to the preset)")
        group.add_argument(
            "--preset", choices=tuple(task.config_type.recipes), help="model and recipe"
        )
        for name in task.recipe_options:
            option = _SHORT.get(name, name).replace("_", "-")
            group.add_argument(f"--{option}", dest=name, **_RECIPE_OPTIONS[name])


# Options of the configuration have no defaults here: what is absent comes from the preset, or,
# with --resume, from the run.
def _add_run_options(group: Any, task: TrainTask) -> None:
    group.add_argument(
        "--output", type=Path, default=Path("runs") / task.name, metavar="DIR",
        help="folder for checkpoint, configuration and history (default: %(default)s)",
    )  # fmt: skip
    group.add_argument("--resume", action="store_true", help="continue the run in --output")
    group.add_argument("--overwrite", action="store_true", help="replace the run in --output")
    group.add_argument(
        "--time-limit", type=float, metavar="MINUTES",
        help="stop after so many minutes, with a checkpoint to --resume from",
    )  # fmt: skip
    group.add_argument("--seed", type=natural, help="seed of everything random (default: 0)")
    group.add_argument("--devices", type=positive, metavar="N", help="processes (default: 1)")
    group.add_argument("--threads", type=positive, metavar="N", help="threads of each process")
    group.add_argument(
        "--evaluate-every", type=natural, metavar="N",
        help="epochs between evaluations; 0: after the last only (default)",
    )  # fmt: skip


def _run(task: TrainTask, options: argparse.Namespace) -> int:
    if options.resume and options.overwrite:
        raise ValueError("--resume and --overwrite exclude each other; choose one")
    folder = RunFolder(options.output, task.config_type)
    options.hint = ""
    config = _configure(task, options, folder)
    folder.check(config, resume=options.resume, overwrite=options.overwrite)
    callbacks = [] if options.time_limit is None else time_limit(options.time_limit)
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)  # for the processes of --devices
        torch.set_num_threads(options.threads)
    again = f"continue with: equigeo train {task.name} --output {options.output} --resume"
    options.hint = f"; {again}"
    trained = task.train(
        config,
        options.output,
        resume=options.resume,
        overwrite=options.overwrite,
        progress=True,
        callbacks=callbacks,
    )
    _report(trained, folder, again)
    return 0


def _configure(task: TrainTask, options: argparse.Namespace, folder: RunFolder) -> RunConfig:
    """Combine the saved configuration or the preset's with the given options."""
    given = {
        field.name: getattr(options, field.name)
        for field in fields(task.config_type)
        if getattr(options, field.name, None) is not None
    }
    if "data" in given or not (options.resume and folder.is_used()):
        given["data"] = task.resolve(given.get("data"))
    if options.resume and folder.is_used():
        base = replace(folder.saved_config(), **given)
    else:
        base = task.config_type.of_preset(**given)
    changed = {
        name: getattr(options, name)
        for name in task.recipe_options
        if getattr(options, name) is not None
    }
    return replace(base, recipe=replace(base.recipe, **changed))


def _report(trained: TrainedModel, folder: RunFolder, again: str) -> None:
    epochs = trained.history[-1]["epoch"] if trained.history else 0
    seconds = sum(line["seconds"] for line in trained.history)
    print(f"trained {epochs} epochs in {seconds:.1f} s")
    if epochs < trained.config.recipe.epochs:
        print(again)
        return
    last = trained.history[-1]
    if last.get("test_accuracy") is not None:
        part = "held-out" if getattr(trained.config, "holdout", False) else "test"
        print(f"{part} accuracy {last['test_accuracy']:.2%}")
    if "rotated_accuracy" in last:
        print(f"rotated accuracy {last['rotated_accuracy']:.2%}")
    if last.get("greedy_length") is not None:
        print(f"mean length of greedy tours {last['greedy_length']:.4f}")
        print(f"mean length of the best of all starts {last['multistart_length']:.4f}")
    if "logit_change" in last:
        print(f"equivariance error {last['logit_change']:.3f}: change of the logits / deviation")
    print(f"next: equigeo evaluate {folder.checkpoint}")
