"""The configuration of one training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from equigeo.training.recipe import Recipe
from equigeo.training.recipes import RECIPES


@dataclass(frozen=True)
class TrainConfig:
    """What a run trains on, with which preset and recipe; saved as ``config.json``.

    Two runs of equal configurations give equal weights on the same machine and versions.

    Parameters
    ----------
    data : str
        ``"builtin"``, or the path of a folder or archive in the MeshCNN layout.
    split : {"folder", "16", "10"}
        Protocol that divides the data; see ``equigeo.datasets.split_indices``.
    split_index : int
        Number of the seeded draw.
    holdout : int
        If positive, that many training meshes of every class replace the test meshes: what
        hyper-parameters may be chosen on.
    preset : {"default", "paper"}
        Model and recipe.
    recipe : Recipe
        How the weights are optimised.
    seed : int
        Decides initial weights, order of meshes, jitter and dropout.
    devices : int
        Number of processes (on a machine with GPUs, of GPUs).
    evaluate_every : int
        Epochs between accuracies on the test meshes; 0 evaluates after the last epoch only. Nothing
        is selected by them.

    Raises
    ------
    ValueError
        If a number is out of range or a name unknown.

    Examples
    --------
    >>> config = TrainConfig("builtin", recipe=RECIPES["paper"], preset="paper")
    >>> TrainConfig.from_dict(config.to_dict()) == config
    True
    """

    data: str
    split: Literal["folder", "16", "10"] = "folder"
    split_index: int = 0
    holdout: int = 0
    preset: Literal["default", "paper"] = "default"
    recipe: Recipe = field(default=RECIPES["default"])
    seed: int = 0
    devices: int = 1
    evaluate_every: int = 0

    def __post_init__(self) -> None:
        """Check ranges and names."""
        for name in ("split_index", "holdout", "seed", "evaluate_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.devices < 1:
            raise ValueError(f"devices must be at least 1, got {self.devices}")
        if self.split not in ("folder", "16", "10"):
            raise ValueError(f"split must be folder, 16 or 10, got {self.split!r}")
        if self.preset not in RECIPES:
            raise ValueError(f"preset must be one of {', '.join(RECIPES)}, got {self.preset!r}")

    def to_dict(self) -> dict[str, Any]:
        """Give nested dictionaries of JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """Read what ``to_dict`` gave.

        Raises
        ------
        ValueError
            If a field is missing, unknown or of another type.
        """
        _check_fields(cls, values, "the configuration")
        _check_fields(Recipe, values["recipe"], "the recipe")
        return cls(**{**values, "recipe": Recipe(**values["recipe"])})


def _check_fields(owner: type, values: Any, what: str) -> None:
    """Compare names and types with the fields of a dataclass."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} must be a JSON object, got {type(values).__name__}")
    names = {f.name for f in fields(owner)}
    if names != set(values):
        missing, unknown = sorted(names - set(values)), sorted(map(str, set(values) - names))
        raise ValueError(f"{what} has missing fields {missing} and unknown fields {unknown}")
    hints = get_type_hints(owner)
    for name, value in values.items():
        if not _fits(value, hints[name]):
            raise ValueError(f"{what} has {name} = {value!r}, expected {_describe(hints[name])}")


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if hint is Recipe:
        return isinstance(value, Mapping)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, hint) and not isinstance(value, bool)


def _describe(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    return hint.__name__ if isinstance(hint, type) else str(hint)
