"""Configuration of a training run on meshes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from equigeo.nn.value_range import Range
from equigeo.training.recipe import Recipe
from equigeo.training.run_config import RunConfig

MESH_RECIPES: Final[dict[str, Recipe]] = {
    "default": Recipe(
        epochs=50, batch_size=16, learning_rate=4e-3, optimizer="adamw", schedule="one_cycle",
        weight_decay=0.01, label_smoothing=0.1, update_bn=True,
    ),
    # As released with PD-MeshNet: Adam at a constant rate, nothing else.
    "paper": Recipe(
        epochs=200, batch_size=16, learning_rate=2e-4, optimizer="adam", schedule="constant",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class MeshConfig(RunConfig):
    """Configuration of a run on meshes, saved as ``config.json``.

    Parameters
    ----------
    data : str
        ``"builtin"`` for articulated shapes, ``"cubes"`` for engraved cubes, or the path of a
        folder or archive in the MeshCNN layout.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``.
    preset : {"default", "paper"}, model and recipe
    split : {"folder", "16", "10", "5"}
        Protocol that splits the data; see ``equigeo.datasets.split_indices``.
    split_index : int, number of the seeded draw
    holdout : int
        If positive, evaluate on this number of training meshes (or groups) per class instead of the
        test meshes.

    Examples
    --------
    >>> config = MeshConfig("builtin", recipe=MESH_RECIPES["paper"], preset="paper")
    >>> MeshConfig.from_dict(config.to_dict()) == config
    True
    """

    recipe: Recipe = MESH_RECIPES["default"]
    preset: Literal["default", "paper"] = "default"
    split: Literal["folder", "16", "10", "5"] = "folder"
    split_index: int = 0
    holdout: int = 0

    recipes: ClassVar[Mapping[str, Recipe]] = MESH_RECIPES
    unused: ClassVar[tuple[str, ...]] = ()
    samples: ClassVar[str] = "meshes"
    ranges: ClassVar[Mapping[str, Range]] = {
        **RunConfig.ranges,
        "split_index": Range(0, 10**6),
        "holdout": Range(0, 10**6),
    }
