"""``equigeo evaluate``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from equigeo.cli.check_target import check_target
from equigeo.cli.evaluate_images import evaluate_images
from equigeo.cli.evaluate_meshes import evaluate_meshes
from equigeo.cli.evaluate_points import evaluate_points
from equigeo.cli.evaluate_tours import evaluate_tours
from equigeo.cli.parser import natural, positive
from equigeo.training import (
    IMAGE_TESTS,
    Checkpoint,
    CheckpointError,
    TrainedClassifier,
    TrainedImageClassifier,
    TrainedPointClassifier,
    TrainedTourModel,
)

_EVALUATIONS: Final[dict[str, Callable[[argparse.Namespace], None]]] = {
    TrainedClassifier.task: evaluate_meshes,
    TrainedImageClassifier.task: evaluate_images,
    TrainedPointClassifier.task: evaluate_points,
    TrainedTourModel.task: evaluate_tours,
}
_SPLITS: Final[dict[str, tuple[str, ...]]] = {
    TrainedClassifier.task: ("folder", "16", "10"),
    TrainedImageClassifier.task: ("validation", "test"),
}
_TASKS: Final = {  # of options that mean nothing elsewhere
    "split": (TrainedClassifier.task, TrainedImageClassifier.task),
    "split_index": (TrainedClassifier.task,),
    "seed": (TrainedClassifier.task, TrainedPointClassifier.task, TrainedTourModel.task),
    "test": (TrainedImageClassifier.task,),
    "images": (TrainedImageClassifier.task,),
    "instances": (TrainedTourModel.task,),
}


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("evaluate", help="measure accuracy and invariance")
    parser.set_defaults(run=_run)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="model.ckpt of a run")
    parser.add_argument(
        "--data",
        metavar="builtin|DIR|ARCHIVE",
        help="by default what the model was trained on; tours: TSPLIB, by default none",
    )
    parser.add_argument(
        "--split", choices=[name for names in _SPLITS.values() for name in names],
        help="what to evaluate on; by default that of the training. Meshes: folder, 16, 10, whose "
        "test part is used. Digits: validation, test",
    )  # fmt: skip
    parser.add_argument("--threads", type=positive, metavar="N", help="by default one per core")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument("--seed", type=natural, help="seed of transformed copies (default: 0)")
    meshes = parser.add_argument_group("meshes (writes a report beside the checkpoint)")
    meshes.add_argument("--split-index", type=natural, metavar="I", help="number of the draw")
    images = parser.add_argument_group("digits")
    images.add_argument(
        "--test", choices=IMAGE_TESTS, help="how digits are transformed (default: affnist)"
    )
    images.add_argument(
        "--images", type=positive, metavar="N",
        help="how many transformed digits (default: 20000; there are 320000)",
    )  # fmt: skip
    tours = parser.add_argument_group("tours")
    tours.add_argument(
        "--instances", type=positive, metavar="N",
        help="how many test instances, of which the shortest tours are found (default: 1000)",
    )  # fmt: skip


def _run(options: argparse.Namespace) -> int:
    task = Checkpoint.load(options.checkpoint).task
    if task not in _EVALUATIONS:
        raise CheckpointError(
            f"{options.checkpoint}: is for the task {task!r}, expected one of "
            f"{', '.join(_EVALUATIONS)}; pass a checkpoint of one of them"
        )
    _check_options(options, task)
    if options.json:
        check_target(options.json)
    if options.threads:
        torch.set_num_threads(options.threads)
    _EVALUATIONS[task](options)
    return 0


def _check_options(options: argparse.Namespace, task: str) -> None:
    """Refuse options that mean nothing for the task."""
    for name, tasks in _TASKS.items():
        if task not in tasks and getattr(options, name) is not None:
            raise ValueError(
                f"--{name.replace('_', '-')} is for checkpoints of the task "
                f"{' or '.join(map(repr, tasks))}, and {options.checkpoint} is for {task!r}"
            )
    if options.split not in (None, *_SPLITS.get(task, ())):
        raise ValueError(
            f"--split must be {', '.join(_SPLITS[task])} for the task {task!r}, "
            f"got {options.split!r}"
        )
