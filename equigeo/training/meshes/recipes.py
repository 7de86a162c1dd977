"""The recipe of every preset of the mesh classifier, in one table."""

from __future__ import annotations

from typing import Final

from equigeo.training.recipe import Recipe

RECIPES: Final[dict[str, Recipe]] = {
    "default": Recipe(
        epochs=50,
        batch_size=16,
        learning_rate=4e-3,
        optimizer="adamw",
        schedule="one_cycle",
        weight_decay=0.01,
        label_smoothing=0.1,
        jitter=0.05,
    ),
    # As released with PD-MeshNet: Adam at a constant rate, nothing else.
    "paper": Recipe(
        epochs=200,
        batch_size=16,
        learning_rate=2e-4,
        optimizer="adam",
        schedule="constant",
    ),
}
