"""``equigeo evaluate``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from equigeo.cli.check_target import check_target
from equigeo.cli.evaluate_images import evaluate_images
from equigeo.cli.evaluate_meshes import evaluate_meshes
from equigeo.cli.parser import natural, positive
from equigeo.training import (
    IMAGE_TESTS,
    Checkpoint,
    CheckpointError,
    TrainedClassifier,
    TrainedImageClassifier,
)

_EVALUATIONS: Final[dict[str, Callable[[argparse.Namespace], None]]] = {
    TrainedClassifier.task: evaluate_meshes,
    TrainedImageClassifier.task: evaluate_images,
}
_SPLITS: Final = {
    TrainedClassifier.task: ("folder", "16", "10"),
    TrainedImageClassifier.task: ("validation", "test"),
}
_OPTIONS: Final = {  # that belong to one task
    TrainedClassifier.task: ("split_index", "seed"),
    TrainedImageClassifier.task: ("test", "images"),
}


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("evaluate", help="measure accuracy and invariance")
    parser.set_defaults(run=_run)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="model.ckpt of a run")
    parser.add_argument(
        "--data", metavar="builtin|DIR|ARCHIVE", help="by default what the model was trained on"
    )
    parser.add_argument(
        "--split", choices=[name for names in _SPLITS.values() for name in names],
        help="what to evaluate on; by default that of the training. Meshes: folder, 16, 10, whose "
        "test part is used. Digits: validation, test",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    meshes = parser.add_argument_group("meshes (writes a report beside the checkpoint)")
    meshes.add_argument("--split-index", type=natural, metavar="I", help="number of the draw")
    meshes.add_argument("--seed", type=natural, help="seed of the copies (default: 0)")
    images = parser.add_argument_group("digits")
    images.add_argument(
        "--test", choices=IMAGE_TESTS, help="how digits are transformed (default: affnist)"
    )
    images.add_argument(
        "--images", type=positive, metavar="N",
        help="how many transformed digits (default: 20000; there are 320000)",
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
    _EVALUATIONS[task](options)
    return 0


def _check_options(options: argparse.Namespace, task: str) -> None:
    """Refuse options that mean nothing for the task."""
    for other, names in _OPTIONS.items():
        for name in names:
            if other != task and getattr(options, name) is not None:
                raise ValueError(
                    f"--{name.replace('_', '-')} is for checkpoints of the task {other!r}, and "
                    f"{options.checkpoint} is for {task!r}"
                )
    if options.split not in (None, *_SPLITS[task]):
        raise ValueError(
            f"--split must be {', '.join(_SPLITS[task])} for the task {task!r}, "
            f"got {options.split!r}"
        )
