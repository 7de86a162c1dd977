"""Common part of the configurations of all tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from equigeo._brief import shown
from equigeo.nn.config import Config
from equigeo.nn.value_range import Range
from equigeo.training.recipe import Recipe

_Config = TypeVar("_Config", bound="RunConfig")
_LONGEST = 4096  # characters of a path


@dataclass(frozen=True)
class RunConfig(Config):
    """Configuration that determines the weights of a run, saved as ``config.json``.

    Runs of equal configurations give equal weights on the same machine with the same versions and
    number of threads. Operations of this library do not depend on the number of threads, but some
    of PyTorch do, such as batch normalisation. Every task has a subclass with its fields and
    presets.

    Parameters
    ----------
    data : str, training data
    recipe : Recipe, optimisation of the weights
    preset : str, name of model and recipe
    seed : int, of initial weights, order of samples, noise and dropout
    devices : int, number of processes (of GPUs, on a machine with GPUs)
    evaluate_every : int
        Epochs between evaluations; 0 evaluates after the last epoch only. Nothing is selected by
        them.
    """

    data: str
    recipe: Recipe
    preset: str = "default"
    seed: int = 0
    devices: int = 1
    evaluate_every: int = 0

    complete: ClassVar[bool] = True  # all fields that determine the weights are saved
    recipes: ClassVar[Mapping[str, Recipe]] = {}
    preset_choices: ClassVar[frozenset[str]] = frozenset({"data", "preset"})  # of ``of_preset``
    # entries of the recipe that do not apply
    unused: ClassVar[tuple[str, ...]] = ("stretch", "resolutions")
    samples: ClassVar[str] = "samples"  # what is trained on
    ranges: ClassVar[Mapping[str, Range]] = {
        "seed": Range(0, 2**64 - 1),
        "devices": Range(1, 1024),
        "evaluate_every": Range(0, 10**6),
    }

    def __post_init__(self) -> None:
        """Validate names, ranges, and recipe entries that do not apply."""
        if self.preset not in self.recipes:
            known = ", ".join(self.recipes)
            raise ValueError(f"preset must be one of {known}, got {shown(self.preset)}")
        super().__post_init__()
        if not 0 < len(self.data) <= _LONGEST:
            raise ValueError(f"data must have 1 to {_LONGEST} characters, got {len(self.data)}")
        if self.recipe.minutes and self.devices > 1:  # whose clocks would differ
            raise ValueError(
                f"a run that ends after minutes must have one device, got {self.devices}; "
                "let it end after epochs instead: --epochs N"
            )
        for name in self.unused:
            value = getattr(self.recipe, name)
            if value:
                none = "empty" if isinstance(value, tuple) else "0"
                raise ValueError(f"{name} must be {none} for {self.samples}, got {value}")

    @classmethod
    def of_preset(cls: type[_Config], data: str, preset: str = "default") -> _Config:
        """Return the configuration of a preset; ``dataclasses.replace`` changes its fields."""
        recipe = cls.recipes.get(preset)
        if recipe is None:
            raise ValueError(f"preset must be one of {', '.join(cls.recipes)}, got {shown(preset)}")
        return cls(data, recipe, preset)

    @classmethod
    def presets(cls: type[_Config], data: str = "data") -> list[_Config]:
        """Return the configurations of all presets, the default one first.

        Examples
        --------
        >>> from equigeo.tasks.mesh_classification import MeshConfig
        >>> [config.preset_name for config in MeshConfig.presets()]
        ['default', 'paper']
        """
        only = getattr(cls, "data", data)  # of a task with one choice, which is its default
        return [cls.of_preset(only, name) for name in cls.recipes]

    @property
    def preset_name(self) -> str:
        """Name that distinguishes the preset from others of the task."""
        return self.preset
