"""What the configurations of all tasks have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from equigeo.training.recipe import Recipe

_Config = TypeVar("_Config", bound="RunConfig")


@dataclass(frozen=True)
class RunConfig:
    """What decides the weights of a run; saved as ``config.json``.

    Two runs of equal configurations give equal weights on the same machine and versions. Every
    task has a subclass with its own fields and presets.

    Parameters
    ----------
    data : str
        What to train on.
    recipe : Recipe
        How the weights are optimised.
    preset : str
        Name of model and recipe.
    seed : int
        Decides initial weights, order of samples, noise and dropout.
    devices : int
        Number of processes (on a machine with GPUs, of GPUs).
    evaluate_every : int
        Epochs between accuracies on the test samples; 0 evaluates after the last epoch only.
        Nothing is selected by them.

    Raises
    ------
    ValueError
        If a number is out of range or a name unknown.
    """

    data: str
    recipe: Recipe
    preset: str = "default"
    seed: int = 0
    devices: int = 1
    evaluate_every: int = 0

    recipes: ClassVar[Mapping[str, Recipe]] = {}
    _natural: ClassVar[tuple[str, ...]] = ("seed", "evaluate_every")

    def __post_init__(self) -> None:
        """Check ranges and names."""
        for name in self._natural:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.devices < 1:
            raise ValueError(f"devices must be at least 1, got {self.devices}")
        if self.preset not in self.recipes:
            known = ", ".join(self.recipes)
            raise ValueError(f"preset must be one of {known}, got {self.preset!r}")

    @classmethod
    def of_preset(
        cls: type[_Config], data: str, preset: Any = "default", **choices: Any
    ) -> _Config:
        """Give what a preset says, where nothing else is chosen.

        Parameters
        ----------
        data : str
            What to train on.
        preset : str
            Name of model and recipe.
        **choices
            Other fields.

        Raises
        ------
        ValueError
            If a number is out of range or a name unknown.
        """
        recipe = cls.recipes.get(preset)
        if recipe is None:
            raise ValueError(f"preset must be one of {', '.join(cls.recipes)}, got {preset!r}")
        return cls(data, recipe, preset, **choices)

    def to_dict(self) -> dict[str, Any]:
        """Give nested dictionaries of JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls: type[_Config], values: Mapping[str, Any]) -> _Config:
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
    if hint is bool:
        return isinstance(value, bool)
    return isinstance(value, hint) and not isinstance(value, bool)


def _describe(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    return hint.__name__ if isinstance(hint, type) else str(hint)
