"""``equigeo train affnist``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from equigeo.cli.parser import positive
from equigeo.cli.train_task import TrainTask
from equigeo.training import ImageConfig, TrainedImageClassifier, train_image_classifier


def _add_data_options(group: Any) -> None:
    group.add_argument("--data", metavar="DIR", help="folder with the four files of MNIST")
    group.add_argument(
        "--digits", type=positive, metavar="N", help="train on the first N digits (default: all)"
    )
    group.add_argument(
        "--test-images", type=positive, metavar="N",
        help="transformed digits to evaluate on (default: 20000)",
    )  # fmt: skip
    group.add_argument(
        "--holdout", action="store_true", default=None,
        help="evaluate on transformed validation digits, and leave the test digits unseen",
    )  # fmt: skip


def _resolve(data: str | None) -> str:
    if data is None:
        raise ValueError("--data is missing; give the folder with the files of MNIST")
    return str(Path(data).resolve())


def _train(config: ImageConfig, output: Path, **keywords: Any) -> TrainedImageClassifier:
    digits = f"{config.digits} digits" if config.digits else "all training digits"
    print(
        f"{digits} of {config.data}, {config.preset} preset, "
        f"{config.recipe.epochs} epochs; output in {output}",
        file=sys.stderr,
    )
    return train_image_classifier(config, output, **keywords)


AFFNIST = TrainTask(
    name=TrainedImageClassifier.task,
    help="classify transformed digits after training on centred ones",
    config_type=ImageConfig,
    recipe_options=(
        "epochs", "batch_size", "learning_rate", "weight_decay", "label_smoothing",
        "logit_adjustment", "ema_decay",
    ),
    add_data_options=_add_data_options,
    resolve=_resolve,
    train=_train,
)  # fmt: skip
