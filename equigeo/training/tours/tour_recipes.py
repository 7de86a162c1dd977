"""The recipe of every preset of the models of tours, in one table."""

from __future__ import annotations

from typing import Final

from equigeo.training.recipe import Recipe

TOUR_RECIPES: Final[dict[str, Recipe]] = {
    "default": Recipe(
        epochs=15,
        batch_size=64,
        learning_rate=1e-3,
        optimizer="adamw",
        schedule="one_cycle",
        weight_decay=0.01,
    ),
    # The published model, trained as POMO is.
    "paper": Recipe(
        epochs=200,
        batch_size=64,
        learning_rate=1e-4,
        optimizer="adam",
        schedule="constant",
        weight_decay=1e-6,
    ),
}
