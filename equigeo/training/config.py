"""Recipe and common configuration of all tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeVar

from torch import nn, optim
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, OneCycleLR

from equigeo._core.brief import shown
from equigeo._core.config import Config, within


@dataclass(frozen=True)
class Recipe(Config):
    """Settings of optimizer, schedule and length of a run.

    Parameters
    ----------
    batch_size : int
        Samples per step, over all processes together; batches of an epoch differ by at most one.
    learning_rate : float
        Constant rate, peak of ``one_cycle`` and ``warm_cosine``, or start of ``cosine``.
    optimizer : {"adamw", "adam"}
        Betas are 0.9 and 0.999; ``one_cycle`` moves the first one against the rate.
    schedule : {"one_cycle", "cosine", "warm_cosine", "constant"}
        Rate over the steps of the run; ``cosine`` falls to 0, ``warm_cosine`` rises linearly over
        ``warmup`` steps and falls to a hundredth, over the time of a run with ``minutes``.
    weight_decay : float
        Decoupled decay of ``adamw``; L2 penalty of ``adam``.
    label_smoothing : float
        Share of the target spread over all classes, in [0, 1).
    logit_adjustment : float
        Weight of the logarithm of a class's share of the training samples, added to its logit in
        the loss. With 1, all classes of a skewed training set count equally.
    jitter : float
        Standard deviation of noise on vertices, in mean edge lengths of their mesh, on points, in
        halves of the largest side of their cloud, or on states of dynamics, in root mean squares
        of their components.
    ema_decay : float
        Decay of the running average of the weights that is evaluated and saved; 0 for none.
    stretch : float
        Standard deviation of the logarithms by which meshes and point clouds are stretched along
        random axes.
    resample : float
        Share of the point clouds of a step whose sampling is changed, by one of four ways at random
        and by a random amount: up to 75 % of the points of the cloud, or of its half beyond a
        plane, or up to 30 % at one end are replaced by copies of others, or up to 1 % by outliers
        at one to two radii.
    resolutions : tuple of float
        Remesh every mesh once to these multiples of its number of faces; a step draws uniformly
        among these and the original.
    damaged : int
        Number of further versions of every mesh, drawn like those of ``resolutions``. Each has,
        with probability 1/2 and of an amount uniform up to so much, a hole (40 % of the faces),
        noise (half an edge) and debris (4 %), see ``equigeo.mesh.damage``.
    update_bn : bool
        Estimate the running statistics of BatchNorm layers on all training samples without noise
        before an evaluation and at the end of the run, by a forward pass per sample.
    minutes : float
        End the run after this time of training without evaluations; 0 for no limit. The weights
        then depend on the speed of the machine.
    warmup : int, steps of ``warm_cosine`` with a rising rate
    clip_norm : float, largest norm of the gradient; 0 for no limit

    Examples
    --------
    >>> Recipe(epochs=3, batch_size=16, learning_rate=1e-3).schedule
    'one_cycle'
    """

    epochs: int = within(1, 10**5)
    batch_size: int = within(1, 10**9)
    learning_rate: float = within(0.0, 1e3, above=True, below=True)
    optimizer: Literal["adamw", "adam"] = "adamw"
    schedule: Literal["one_cycle", "cosine", "warm_cosine", "constant"] = "one_cycle"
    weight_decay: float = within(0.0, 1e3, below=True, default=0.0)
    label_smoothing: float = within(0.0, 1.0, below=True, default=0.0)
    logit_adjustment: float = within(0.0, 1e3, below=True, default=0.0)
    jitter: float = within(0.0, 1e3, below=True, default=0.0)
    ema_decay: float = within(0.0, 1.0, below=True, default=0.0)
    stretch: float = within(0.0, 10.0, default=0.0)
    resample: float = within(0.0, 1.0, default=0.0)
    # a mesh that is subdivided once has four times the faces
    resolutions: tuple[float, ...] = within(0.0, 4.0, above=True, entries=16, default=())
    damaged: int = within(0, 64, default=0)
    update_bn: bool = False
    minutes: float = within(0.0, 525_600.0, default=0.0)  # a year
    warmup: int = within(0, 10**9, default=0)
    clip_norm: float = within(0.0, 1e9, below=True, default=0.0)

    complete: ClassVar[bool] = True
    title: ClassVar[str] = "the recipe"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warmup and not self.knows("warmup"):
            raise ValueError(
                f"{self.warmup} steps of warm-up must have the schedule {' or '.join(_WARMING)}, "
                f"got {self.schedule}; choose a preset that has it"
            )
        if self.minutes and not self.knows("minutes"):
            raise ValueError(
                f"a run of {self.minutes:g} minutes must have the schedule "
                f"{' or '.join(_BY_CLOCK)}, got {self.schedule}; choose a preset that has it"
            )

    def knows(self, name: str) -> bool:
        """Return whether the schedule uses ``minutes`` or ``warmup``; True for other fields."""
        return self.schedule in {"minutes": _BY_CLOCK, "warmup": _WARMING}.get(name, self.schedule)

    @property
    def length(self) -> str:
        """Length of a run in words."""
        return f"{self.minutes:g} minutes" if self.minutes else f"{self.epochs} epochs"

    def is_done(self, epochs: int, seconds: float) -> bool:
        """Return whether a run is complete after some epochs and seconds of training."""
        return epochs >= self.epochs or 0 < 60 * self.minutes <= seconds

    def progress(self, epochs: int, seconds: float) -> str:
        """Return the progress of a run in words."""
        if self.minutes:
            return f"{seconds / 60:.1f} of {self.minutes:g} minutes"
        return f"{epochs} of {self.epochs} epochs"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        if isinstance(values, Mapping):
            values = {**_UNKNOWN_EARLIER, **values}
        return super().from_dict(values)


# Fields that configurations of earlier versions lack, and what those versions did.
_UNKNOWN_EARLIER: Final[Mapping[str, Any]] = {
    "stretch": 0.0, "resample": 0.0, "resolutions": (), "damaged": 0, "update_bn": False,
    "minutes": 0.0, "warmup": 0, "clip_norm": 0.0,
}  # fmt: skip
_BY_CLOCK: Final = ("warm_cosine", "constant")
_WARMING: Final = ("warm_cosine",)
_LAST_SHARE: Final = 0.01  # of the rate, at the end of ``warm_cosine``


def build_optimizer(
    parameters: Iterable[nn.Parameter],
    recipe: Recipe,
    steps_per_epoch: int,
    elapsed: Callable[[], float] = float,  # returns seconds of training, for runs with a time limit
) -> tuple[optim.Optimizer, LRScheduler | None]:
    """Build the optimizer and the per-step schedule, which is None for a constant rate."""
    rate, decay = recipe.learning_rate, recipe.weight_decay
    optimizer: optim.Optimizer
    if recipe.optimizer == "adamw":
        optimizer = optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=True)
    else:
        optimizer = optim.Adam(parameters, lr=rate, weight_decay=decay, fused=True)
    if recipe.schedule == "constant":
        return optimizer, None
    steps = recipe.epochs * steps_per_epoch
    if recipe.schedule == "cosine":
        return optimizer, CosineAnnealingLR(optimizer, steps)
    if recipe.schedule == "warm_cosine":
        return optimizer, LambdaLR(optimizer, _warm_cosine(recipe, steps, elapsed))
    return optimizer, OneCycleLR(optimizer, rate, steps)


def _warm_cosine(
    recipe: Recipe, steps: int, elapsed: Callable[[], float]
) -> Callable[[int], float]:
    """Return a function from steps to the factor of the learning rate."""

    def share(done: int) -> float:
        part = elapsed() / (60 * recipe.minutes) if recipe.minutes else done / steps
        cosine = (1 + math.cos(math.pi * min(part, 1.0))) / 2
        rising = min(1.0, (done + 1) / recipe.warmup) if recipe.warmup else 1.0
        return rising * (_LAST_SHARE + (1 - _LAST_SHARE) * cosine)

    return share


_Config = TypeVar("_Config", bound="RunConfig")
_LONGEST = 4096  # characters of a path


@dataclass(frozen=True)
class RunConfig(Config):
    """Configuration that determines the weights of a run, saved as ``config.json``.

    Runs of equal configurations give equal weights on the same machine with the same versions and
    number of threads. Operations of this library do not depend on the number of threads, but some
    of PyTorch do, such as batch normalization. Every task has a subclass with its fields and
    presets.

    Parameters
    ----------
    data : str, training data
    recipe : Recipe, optimization of the weights
    preset : str, name of model and recipe
    seed : int, of initial weights, order of samples, noise and dropout
    devices : int, number of processes per node (of GPUs, on machines with GPUs)
    nodes : int, number of machines
    evaluate_every : int
        Epochs between evaluations; 0 evaluates after the last epoch only. Nothing is selected by
        them.
    """

    data: str
    recipe: Recipe
    preset: str = "default"
    seed: int = within(0, 2**64 - 1, default=0)
    devices: int = within(1, 1024, default=1)
    nodes: int = within(1, 1024, default=1)
    evaluate_every: int = within(0, 10**6, default=0)

    complete: ClassVar[bool] = True  # all fields that determine the weights are saved
    recipes: ClassVar[Mapping[str, Recipe]] = {}
    preset_choices: ClassVar[frozenset[str]] = frozenset({"data", "preset"})  # of ``of_preset``
    # entries of the recipe that do not apply
    unused: ClassVar[tuple[str, ...]] = ("stretch", "resample", "resolutions", "damaged")
    samples: ClassVar[str] = "samples"  # what is trained on

    def __post_init__(self) -> None:
        if self.preset not in list(self.recipes):  # also where it has no hash
            known = ", ".join(self.recipes)
            raise ValueError(f"preset must be one of {known}, got {shown(self.preset)}")
        super().__post_init__()
        if not 0 < len(self.data) <= _LONGEST:
            raise ValueError(f"data must have 1 to {_LONGEST} characters, got {len(self.data)}")
        if self.recipe.minutes and self.processes > 1:  # whose clocks would differ
            raise ValueError(
                f"a run that ends after minutes must have one device, got {self.processes}; "
                "let it end after epochs instead: --epochs N"
            )
        for name in self.unused:
            value = getattr(self.recipe, name)
            if value:
                none = "empty" if isinstance(value, tuple) else "0"
                raise ValueError(f"{name} must be {none} for {self.samples}, got {value}")

    @property
    def processes(self) -> int:
        """Number of processes on all nodes."""
        return self.devices * self.nodes

    @classmethod
    def from_dict(cls: type[_Config], values: Mapping[str, Any]) -> _Config:
        if isinstance(values, Mapping):
            values = {"nodes": 1, **values}  # earlier versions lack them
        return super().from_dict(values)

    @classmethod
    def of_preset(cls: type[_Config], data: str, preset: str = "default") -> _Config:
        """Return the configuration of a preset; ``dataclasses.replace`` changes its fields."""
        recipe: Any = cls.recipes.get(preset)  # the constructor raises for unknown presets
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
