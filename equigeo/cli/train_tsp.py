"""``equigeo train tsp``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from equigeo.cli.parser import positive
from equigeo.cli.train_task import TrainTask
from equigeo.training import TourConfig, TrainedTourModel, train_tour_model


def _add_data_options(group: Any) -> None:
    group.add_argument(
        "--model", choices=("mds", "plain"),
        help="what the network sees: embedded cities, or their coordinates (default: mds)",
    )  # fmt: skip
    group.add_argument(
        "--cities", type=positive, metavar="N", help="cities of every instance (default: 20)"
    )
    group.add_argument(
        "--instances", type=positive, metavar="N", help="instances of an epoch (default: 100000)"
    )


def _resolve(data: str | None) -> str:
    return TourConfig.data


def _train(config: TourConfig, output: Path, **keywords: Any) -> TrainedTourModel:
    print(
        f"{config.instances} random instances of {config.cities} cities an epoch, {config.model} "
        f"model, {config.recipe.epochs} epochs; output in {output}",
        file=sys.stderr,
    )
    return train_tour_model(config, output, **keywords)


TOURS = TrainTask(
    name=TrainedTourModel.task,
    help="find short round trips after training on random cities",
    config_type=TourConfig,
    recipe_options=("epochs", "batch_size", "learning_rate", "weight_decay", "ema_decay"),
    add_data_options=_add_data_options,
    resolve=_resolve,
    train=_train,
)
