"""The recipe of every preset of the point-cloud classifiers, in one table."""

from __future__ import annotations

from typing import Final

from equigeo.training.recipe import Recipe

POINT_RECIPES: Final[dict[str, Recipe]] = {
    "default": Recipe(
        epochs=30,
        batch_size=32,
        learning_rate=2e-3,
        optimizer="adamw",
        schedule="one_cycle",
        weight_decay=0.01,
        label_smoothing=0.1,
        jitter=0.01,
    ),
}
