"""``equigeo train``."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from equigeo.cli.parser import natural, positive
from equigeo.training import (
    BUILTIN,
    RECIPES,
    Recipe,
    RunFolder,
    TrainConfig,
    TrainedClassifier,
    load_data,
    train_classifier,
)

_CONFIG_OPTIONS = (
    "data", "split", "split_index", "holdout", "preset", "seed", "devices", "evaluate_every",
)  # fmt: skip
_RECIPE_OPTIONS = {
    "epochs": "epochs",
    "batch_size": "batch_size",
    "lr": "learning_rate",
    "weight_decay": "weight_decay",
    "label_smoothing": "label_smoothing",
    "jitter": "jitter",
    "ema_decay": "ema_decay",
}


def add_parser(commands: Any) -> None:
    """Add the command and its tasks."""
    parser = commands.add_parser("train", help="train a model")
    tasks = parser.add_subparsers(title="tasks", required=True, metavar="TASK")
    task = tasks.add_parser("mesh-classification", help="classify triangle meshes")
    task.set_defaults(run=_run)
    _add_run_options(task.add_argument_group("run"))
    _add_data_options(task.add_argument_group("data"))
    _add_recipe_options(task.add_argument_group("recipe (defaults belong to the preset)"))


# Options of the configuration have no defaults here: what is absent comes from the preset, or,
# with --resume, from the run.
def _add_run_options(group: Any) -> None:
    group.add_argument(
        "--output", type=Path, default=Path("runs/mesh-classification"), metavar="DIR",
        help="folder for checkpoint, configuration and history (default: %(default)s)",
    )  # fmt: skip
    group.add_argument("--resume", action="store_true", help="continue the run in --output")
    group.add_argument("--overwrite", action="store_true", help="replace the run in --output")
    group.add_argument("--seed", type=natural, help="seed of everything random (default: 0)")
    group.add_argument("--devices", type=positive, metavar="N", help="processes (default: 1)")
    group.add_argument("--threads", type=positive, metavar="N", help="threads of each process")
    group.add_argument(
        "--evaluate-every", type=natural, metavar="N",
        help="epochs between test accuracies; 0: after the last only (default)",
    )  # fmt: skip


def _add_data_options(group: Any) -> None:
    group.add_argument(
        "--data", metavar="builtin|DIR|ARCHIVE",
        help="the built-in shapes, or a folder or archive <class>/{train,test}/<mesh>",
    )  # fmt: skip
    group.add_argument(
        "--split", choices=("folder", "16", "10"),
        help="the division as shipped (default), or 16 or 10 training meshes per class",
    )  # fmt: skip
    group.add_argument("--split-index", type=natural, metavar="I", help="number of the draw")
    group.add_argument(
        "--holdout", type=natural, metavar="N",
        help="evaluate on N training meshes per class, held out, and leave the test part unseen",
    )  # fmt: skip


def _add_recipe_options(group: Any) -> None:
    group.add_argument("--preset", choices=tuple(RECIPES), help="model and recipe")
    group.add_argument("--epochs", type=positive, metavar="N")
    group.add_argument("--batch-size", type=positive, metavar="N")
    group.add_argument("--lr", type=float, metavar="X", help="learning rate, or its peak")
    group.add_argument("--weight-decay", type=float, metavar="X")
    group.add_argument("--label-smoothing", type=float, metavar="X")
    group.add_argument("--jitter", type=float, metavar="X", help="noise in mean edge lengths")
    group.add_argument("--ema-decay", type=float, metavar="X", help="running average of weights")


def _run(options: argparse.Namespace) -> int:
    if options.resume and options.overwrite:
        raise ValueError("--resume and --overwrite exclude each other; choose one")
    folder = RunFolder(options.output)
    options.hint = ""
    config = _configure(options, folder)
    folder.check(config, resume=options.resume, overwrite=options.overwrite)
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)  # for the processes of --devices
        torch.set_num_threads(options.threads)
    dataset = load_data(config.data)
    print(
        f"{len(dataset)} meshes of {dataset.num_classes} classes, {config.preset} preset, "
        f"{config.recipe.epochs} epochs; output in {options.output}",
        file=sys.stderr,
    )
    options.hint = (
        f"; continue with: equigeo train mesh-classification --output {options.output} --resume"
    )
    trained = train_classifier(
        config,
        dataset,
        options.output,
        resume=options.resume,
        overwrite=options.overwrite,
        progress=True,
    )
    _report(trained, folder)
    return 0


def _configure(options: argparse.Namespace, folder: RunFolder) -> TrainConfig:
    """Combine the saved configuration or the preset's with the given options."""
    if options.resume and folder.is_used():
        base = folder.saved_config()
    else:
        if options.data is None:
            raise ValueError("--data is missing; give builtin, a folder or an archive")
        preset: Any = options.preset or "default"
        base = TrainConfig(BUILTIN, preset=preset, recipe=RECIPES[preset])
    given = {name: getattr(options, name) for name in _CONFIG_OPTIONS}
    if given["data"] not in (None, BUILTIN):
        given["data"] = str(Path(given["data"]).resolve())
    changed = {
        field: getattr(options, name)
        for name, field in _RECIPE_OPTIONS.items()
        if getattr(options, name) is not None
    }
    recipe: Recipe = replace(base.recipe, **changed)
    return replace(base, recipe=recipe, **{k: v for k, v in given.items() if v is not None})


def _report(trained: TrainedClassifier, folder: RunFolder) -> None:
    last = trained.history[-1]
    seconds = sum(line["seconds"] for line in trained.history)
    print(f"trained {last['epoch']} epochs in {seconds:.1f} s")
    if last["test_accuracy"] is not None:
        part = "held-out" if trained.config.holdout else "test"
        print(f"{part} accuracy {last['test_accuracy']:.2%}")
    print(f"next: equigeo evaluate {folder.checkpoint}")
