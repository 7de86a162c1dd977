"""Configuration of a training run on digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from equigeo.nn.value_range import Range
from equigeo.training.recipe import Recipe
from equigeo.training.run_config import RunConfig

_SHORT: Final = Recipe(
    epochs=8, batch_size=64, learning_rate=4e-3, optimizer="adamw", schedule="one_cycle",
    weight_decay=0.01, label_smoothing=0.05,
)  # fmt: skip

IMAGE_RECIPES: Final[dict[str, Recipe]] = {
    "default": _SHORT,
    "cnn": _SHORT,
    # As released with the published affine networks, except that the rate falls after every step
    # instead of every epoch, to 0 instead of 1e-7.
    "paper": Recipe(
        epochs=50, batch_size=128, learning_rate=2e-4, optimizer="adam", schedule="cosine",
        weight_decay=5e-3,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ImageConfig(RunConfig):
    """Configuration of a run on affNIST, saved as ``config.json``.

    Training digits are centred and not transformed; test digits are transformed.

    Parameters
    ----------
    data : str, folder with the files of MNIST
    recipe, seed, devices, evaluate_every
        See ``RunConfig``; the jitter of the recipe must be 0.
    preset : str
        Model and recipe; ``cnn`` is equivariant only to translations.
    holdout : bool
        Evaluate on transformed validation digits instead of test digits.
    digits : int, number of training digits; 0 for all
    test_images : int, number of transformed digits to evaluate on

    Examples
    --------
    >>> config = ImageConfig("mnist", holdout=True)
    >>> ImageConfig.from_dict(config.to_dict()) == config
    True
    """

    recipe: Recipe = IMAGE_RECIPES["default"]
    preset: Literal["default", "cnn", "paper"] = "default"
    holdout: bool = False
    digits: int = 0
    test_images: int = 20_000

    recipes: ClassVar[Mapping[str, Recipe]] = IMAGE_RECIPES
    unused: ClassVar[tuple[str, ...]] = (*RunConfig.unused, "jitter")
    samples: ClassVar[str] = "images"
    ranges: ClassVar[Mapping[str, Range]] = {
        **RunConfig.ranges,
        "digits": Range(0, 10**6),
        "test_images": Range(1, 10**7),
    }

    @property
    def evaluated_split(self) -> Literal["validation", "test"]:
        """Name of the split of digits that are transformed for evaluation."""
        return "validation" if self.holdout else "test"
