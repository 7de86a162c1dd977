"""The recipe of every preset of the image classifier, in one table."""

from __future__ import annotations

from typing import Final

from equigeo.training.recipe import Recipe

_SHORT: Final = Recipe(
    epochs=4,
    batch_size=64,
    learning_rate=4e-3,
    optimizer="adamw",
    schedule="one_cycle",
    weight_decay=0.01,
    label_smoothing=0.05,
)

IMAGE_RECIPES: Final[dict[str, Recipe]] = {
    "default": _SHORT,
    "cnn": _SHORT,
    # As released with the published affine networks, except that the rate falls after every step
    # instead of every epoch, to 0 instead of 1e-7.
    "paper": Recipe(
        epochs=50,
        batch_size=128,
        learning_rate=2e-4,
        optimizer="adam",
        schedule="cosine",
        weight_decay=5e-3,
    ),
}
