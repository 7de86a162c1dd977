"""``equigeo train mesh-classification``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from equigeo.cli.parser import natural
from equigeo.cli.train_task import TrainTask
from equigeo.training import (
    BUILTIN,
    TrainConfig,
    TrainedClassifier,
    load_data,
    train_classifier,
)


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


def _resolve(data: str | None) -> str:
    if data is None:
        raise ValueError("--data is missing; give builtin, a folder or an archive")
    return data if data == BUILTIN else str(Path(data).resolve())


def _train(config: TrainConfig, output: Path, **keywords: Any) -> TrainedClassifier:
    dataset = load_data(config.data)
    print(
        f"{len(dataset)} meshes of {dataset.num_classes} classes, {config.preset} preset, "
        f"{config.recipe.epochs} epochs; output in {output}",
        file=sys.stderr,
    )
    return train_classifier(config, dataset, output, **keywords)


MESHES = TrainTask(
    name=TrainedClassifier.task,
    help="classify triangle meshes",
    config_type=TrainConfig,
    recipe_options=(
        "epochs", "batch_size", "learning_rate", "weight_decay", "label_smoothing",
        "logit_adjustment", "jitter", "ema_decay",
    ),
    add_data_options=_add_data_options,
    resolve=_resolve,
    train=_train,
)  # fmt: skip
