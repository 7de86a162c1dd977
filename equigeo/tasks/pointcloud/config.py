"""Configuration of a training run on point clouds, and the presets of every model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

from equigeo.nn.value_range import Range
from equigeo.training.recipe import Recipe
from equigeo.training.run_config import RunConfig


@dataclass(frozen=True)
class PointPreset:
    """Recipe and number of points per cloud of a preset."""

    recipe: Recipe
    points: int = 1024


_RECIPE: Final = Recipe(
    epochs=30, batch_size=32, learning_rate=2e-3, optimizer="adamw", schedule="one_cycle",
    weight_decay=0.01, label_smoothing=0.1, jitter=0.01,
)  # fmt: skip
_AFFINE: Final = PointPreset(_RECIPE)
# half-way between classes that count by their share and classes that count alike
_BALANCED: Final = replace(_RECIPE, logit_adjustment=0.5)
_NETWORKS: Final = {  # half an hour on two cores at most
    "default": PointPreset(replace(_BALANCED, epochs=80)),
    "pointnet": PointPreset(replace(_BALANCED, epochs=90), points=256),
    "pointnet++": PointPreset(replace(_BALANCED, epochs=80)),
    "dgcnn": PointPreset(replace(_BALANCED, epochs=20), points=256),
    "transformer": PointPreset(replace(_BALANCED, epochs=25), points=256),
}

# The network is the same with and without an embedding, and so is how it is trained.
POINT_PRESETS: Final[dict[str, dict[str, PointPreset]]] = {
    "affine": {"default": _AFFINE, "SO": _AFFINE, "GLPlus": _AFFINE},
    "mds": _NETWORKS,
    "plain": _NETWORKS,
}


@dataclass(frozen=True)
class PointConfig(RunConfig):
    """Configuration of a run on point clouds, saved as ``config.json``.

    Training clouds stand upright, as published, and are not transformed.

    Parameters
    ----------
    data : str
        Folder; see ``datasets.load_modelnet_points`` and ``datasets.load_cloud_folder``.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``.
    preset : str
        For ``affine``, the group: ``default``, ``SO`` or ``GLPlus``. For the others, the network:
        ``default``, ``pointnet``, ``pointnet++``, ``dgcnn`` or ``transformer``.
    model : {"affine", "mds", "plain"}
        Family of the model; ``plain`` is the network of ``mds`` without the embedding.
    points : int
        Points per cloud, at most those of the data; training draws a new subset for each batch.
    holdout : int
        If positive, evaluate on this number of training clouds per class instead of test clouds.

    Examples
    --------
    >>> config = PointConfig("modelnet10_points", model="mds", points=256)
    >>> PointConfig.from_dict(config.to_dict()) == config
    True
    """

    recipe: Recipe = POINT_PRESETS["affine"]["default"].recipe
    preset: Literal["default", "SO", "GLPlus", "pointnet", "pointnet++", "dgcnn", "transformer"] = (
        "default"
    )
    model: Literal["affine", "mds", "plain"] = "affine"
    points: int = 1024
    holdout: int = 0

    recipes: ClassVar[Mapping[str, Recipe]] = {
        name: preset.recipe
        for presets in POINT_PRESETS.values()
        for name, preset in presets.items()
    }
    preset_choices: ClassVar[frozenset[str]] = frozenset({"data", "preset", "model"})
    samples: ClassVar[str] = "point clouds"
    ranges: ClassVar[Mapping[str, Range]] = {
        **RunConfig.ranges,
        "points": Range(1, 2**20),
        "holdout": Range(0, 10**6),
    }

    def __post_init__(self) -> None:
        """Validate ranges and that the model has the preset."""
        super().__post_init__()
        if self.preset not in POINT_PRESETS[self.model]:
            raise ValueError(
                f"preset must be one of {', '.join(POINT_PRESETS[self.model])} for the model "
                f"{self.model!r}, got {self.preset!r}"
            )

    @classmethod
    def of_preset(cls, data: str, preset: Any = "default", model: Any = "affine") -> PointConfig:
        """Return the recipe and the number of points of a model's preset."""
        found = POINT_PRESETS.get(model, {}).get(preset, _AFFINE)  # unknown names raise below
        return cls(data, found.recipe, preset, model=model, points=found.points)

    @classmethod
    def presets(cls, data: str = "data") -> list[PointConfig]:
        """Return the configurations of all presets of all models."""
        return [
            cls.of_preset(data, preset, model)
            for model, presets in POINT_PRESETS.items()
            for preset in presets
        ]

    @property
    def preset_name(self) -> str:
        """Name of the preset, or of the model if it is the model's default."""
        return self.model if self.preset == "default" else self.preset
