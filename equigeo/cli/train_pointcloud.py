"""``equigeo train pointcloud``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from equigeo.cli.parser import natural, positive
from equigeo.cli.train_task import TrainTask
from equigeo.training import (
    POINT_MODELS,
    PointConfig,
    TrainedPointClassifier,
    train_point_classifier,
)


def _add_data_options(group: Any) -> None:
    group.add_argument("--data", metavar="DIR", help="folder with modelnet10_train.npz")
    group.add_argument(
        "--model", choices=tuple(POINT_MODELS),
        help="family of the model (default: affine); plain is mds without the embedding",
    )  # fmt: skip
    group.add_argument(
        "--no-embedding", dest="model", action="store_const", const="plain", help="--model plain"
    )
    group.add_argument(
        "--points", type=positive, metavar="N", help="points of every cloud (of the preset)"
    )
    group.add_argument(
        "--holdout", type=natural, metavar="N",
        help="evaluate on N training clouds per class, held out, and leave the test part unseen",
    )  # fmt: skip


def _resolve(data: str | None) -> str:
    if data is None:
        raise ValueError("--data is missing; give the folder with modelnet10_train.npz")
    return str(Path(data).resolve())


def _train(config: PointConfig, output: Path, **keywords: Any) -> TrainedPointClassifier:
    print(
        f"clouds of {config.data}, {config.points} points each, {config.model} model, "
        f"{config.preset} preset, {config.recipe.epochs} epochs; output in {output}",
        file=sys.stderr,
    )
    return train_point_classifier(config, output, **keywords)


POINT_CLOUDS = TrainTask(
    name=TrainedPointClassifier.task,
    help="classify point clouds after training on upright ones",
    config_type=PointConfig,
    recipe_options=(
        "epochs", "batch_size", "learning_rate", "weight_decay", "label_smoothing",
        "logit_adjustment", "jitter", "ema_decay",
    ),
    add_data_options=_add_data_options,
    resolve=_resolve,
    train=_train,
)  # fmt: skip
