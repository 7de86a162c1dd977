"""The configuration of one training run on point clouds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from equigeo.training.point_models import POINT_MODELS
from equigeo.training.point_recipes import POINT_RECIPES
from equigeo.training.recipe import Recipe
from equigeo.training.run_config import RunConfig


@dataclass(frozen=True)
class PointConfig(RunConfig):
    """What a run on ModelNet10 trains on, with which model; saved as ``config.json``.

    Training clouds stand upright, as they are published; none is transformed.

    Parameters
    ----------
    data : str
        The folder of the clouds; see ``equigeo.datasets.load_modelnet_points``.
    recipe, seed, devices, evaluate_every
        As for ``RunConfig``.
    preset : {"default"}
        Recipe, and settings of the model.
    model : {"affine", "mds"}
        Family of the model.
    points : int
        Points of every cloud, from 1 to 1024; in training drawn anew every time.
    holdout : int
        If positive, that many training clouds of every class replace the test clouds: what
        hyper-parameters may be chosen on.

    Raises
    ------
    ValueError
        If a number is out of range or a name unknown.

    Examples
    --------
    >>> config = PointConfig("modelnet10_points", model="mds", points=256)
    >>> PointConfig.from_dict(config.to_dict()) == config
    True
    """

    recipe: Recipe = POINT_RECIPES["default"]
    preset: Literal["default"] = "default"
    model: Literal["affine", "mds"] = "affine"
    points: int = 1024
    holdout: int = 0

    recipes: ClassVar[Mapping[str, Recipe]] = POINT_RECIPES
    _natural: ClassVar[tuple[str, ...]] = ("holdout", "seed", "evaluate_every")

    def __post_init__(self) -> None:
        """Check ranges and names."""
        super().__post_init__()
        if self.model not in POINT_MODELS:
            raise ValueError(f"model must be one of {', '.join(POINT_MODELS)}, got {self.model!r}")
        if self.points < 1:
            raise ValueError(f"points must be at least 1, got {self.points}")
