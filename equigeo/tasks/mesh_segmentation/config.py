"""Configuration of a training run on meshes with labelled faces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from equigeo.nn.value_range import Range
from equigeo.training.recipe import Recipe
from equigeo.training.run_config import RunConfig

SEGMENTATION_RECIPES: Final[dict[str, Recipe]] = {
    "default": Recipe(
        epochs=120, batch_size=8, learning_rate=4e-3, optimizer="adamw", schedule="one_cycle",
        weight_decay=0.01, label_smoothing=0.05, resolutions=(0.5,), update_bn=True,
    ),
    # As released with PD-MeshNet: Adam at a constant rate, nothing else.
    "paper": Recipe(
        epochs=1000, batch_size=16, learning_rate=1e-3, optimizer="adam", schedule="constant",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class SegmentationConfig(RunConfig):
    """Configuration of a segmentation run, saved as ``config.json``.

    Parameters
    ----------
    data : str
        ``"builtin"``, or the path of a folder or archive with ``train``, ``test`` and ``seg``.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``.
    preset : {"default", "paper"}, model and recipe
    holdout : int
        If positive, evaluate on this number of training meshes instead of the test meshes.

    Examples
    --------
    >>> config = SegmentationConfig("builtin", holdout=4)
    >>> SegmentationConfig.from_dict(config.to_dict()) == config
    True
    """

    recipe: Recipe = SEGMENTATION_RECIPES["default"]
    preset: Literal["default", "paper"] = "default"
    holdout: int = 0

    recipes: ClassVar[Mapping[str, Recipe]] = SEGMENTATION_RECIPES
    samples: ClassVar[str] = "meshes with labelled faces"
    unused: ClassVar[tuple[str, ...]] = ("logit_adjustment",)
    ranges: ClassVar[Mapping[str, Range]] = {
        **RunConfig.ranges,
        "holdout": Range(0, 10**6),
    }
