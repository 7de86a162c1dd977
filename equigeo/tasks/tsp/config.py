"""Configuration of a training run on tours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from equigeo._brief import shown
from equigeo.nn.value_range import Range
from equigeo.training.recipe import Recipe
from equigeo.training.run_config import RunConfig

UNIFORM: Final = "uniform"
TOUR_RECIPES: Final[dict[str, Recipe]] = {
    "default": Recipe(
        epochs=15, batch_size=64, learning_rate=1e-3, optimizer="adamw", schedule="one_cycle",
        weight_decay=0.01,
    ),
    # The published model, trained as POMO is.
    "paper": Recipe(
        epochs=200, batch_size=64, learning_rate=1e-4, optimizer="adam", schedule="constant",
        weight_decay=1e-6,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class TourConfig(RunConfig):
    """Configuration of a run on the travelling-salesman problem, saved as ``config.json``.

    Parameters
    ----------
    data : {"uniform"}
        Cities are drawn uniformly from the unit square in every step.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``; label smoothing and jitter of the recipe must be 0.
    preset : {"default", "paper"}
        Size of the model, and recipe.
    model : {"mds", "plain"}
        Whether the network reads embedded cities or their coordinates.
    cities, instances : int
        Cities per instance, at least 3, and instances per epoch.

    Examples
    --------
    >>> config = TourConfig(model="plain", cities=50)
    >>> TourConfig.from_dict(config.to_dict()) == config
    True
    """

    data: str = UNIFORM
    recipe: Recipe = TOUR_RECIPES["default"]
    preset: Literal["default", "paper"] = "default"
    model: Literal["mds", "plain"] = "mds"
    cities: int = 20
    instances: int = 100_000

    recipes: ClassVar[Mapping[str, Recipe]] = TOUR_RECIPES
    unused: ClassVar[tuple[str, ...]] = (
        *RunConfig.unused, "label_smoothing", "logit_adjustment", "jitter",
    )  # fmt: skip
    samples: ClassVar[str] = "tours"
    ranges: ClassVar[Mapping[str, Range]] = {
        **RunConfig.ranges,
        "cities": Range(3, 10_000),
        "instances": Range(1, 10**8),
    }

    def __post_init__(self) -> None:
        """Validate ranges and the distribution of cities."""
        super().__post_init__()
        if self.data != UNIFORM:
            raise ValueError(f"data must be {UNIFORM}, got {shown(self.data)}")
