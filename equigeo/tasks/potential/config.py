"""Configuration of a training run of a potential, and its presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from equigeo.nn.value_range import Range
from equigeo.potentials import PotentialConfig
from equigeo.potentials.config import NodeName, ProductName
from equigeo.training.recipe import Recipe
from equigeo.training.run_config import RunConfig

_LONGEST_KEY: Final = 255  # characters
_MANY: Final = 100_000  # epochs, of a run that ends by the clock


@dataclass(frozen=True)
class PotentialPreset:
    """Recipe and other fields of the configuration of a preset."""

    recipe: Recipe
    settings: Mapping[str, Any] = field(default_factory=dict)


# Time-limited runs: specification of the potentials, section 2.5. Averages of the weights are
# evaluated and saved.
_RECIPE: Final = {
    "epochs": _MANY, "learning_rate": 0.01, "optimizer": "adam", "schedule": "warm_cosine",
    "warmup": 100, "ema_decay": 0.99, "clip_norm": 10.0, "minutes": 15.0,
}  # fmt: skip
POTENTIAL_PRESETS: Final[dict[str, PotentialPreset]] = {
    "default": PotentialPreset(Recipe(batch_size=5, **_RECIPE)),  # type: ignore[arg-type]
    "small": PotentialPreset(
        Recipe(batch_size=5, **_RECIPE), {"channels": 16, "lmax_edge": 2}  # type: ignore[arg-type]
    ),
    "crystal": PotentialPreset(
        Recipe(batch_size=2, **_RECIPE),  # type: ignore[arg-type]
        {"channels": 16, "energy_weight": 100.0, "forces_weight": 10.0, "stress_weight": 100.0,
         "validation": 10},
    ),
    "energies": PotentialPreset(
        Recipe(batch_size=16, **_RECIPE),  # type: ignore[arg-type]
        {"forces_weight": 0.0, "validation": 500},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class PotentialRunConfig(RunConfig):
    """Configuration of a potential's training run, saved as ``config.json``.

    Parameters
    ----------
    data : str
        See :func:`equigeo.datasets.load_atomic_split`.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``; label smoothing, adjustment and jitter must be 0.
    preset : {"default", "small", "crystal", "energies"}
        Recipe, size of the model, and weights of the loss.
    subset : str
        One of several sets of the data: a molecule, an element, ``3BPA``.
    validation : int
        Number of training frames held out for validation, equal for all seeds.
    energy_weight, forces_weight, stress_weight : float
        Weights of mean squares in (eV/atom)^2, (eV/angstrom)^2 and (eV/angstrom^3)^2. Labels with a
        weight must be in every frame, stresses in at least one.
    energy_key, forces_key, stress_key : str
        Names of the labels in extended XYZ. Default: the usual names, see
        :func:`equigeo.datasets.read_extxyz`.
    compile : bool
        Compile the training step, which takes one to two minutes and makes steps of small molecules
        nearly 2x faster. Results differ by rounding.
    product, node, correlation, cutoff, channels, layers, lmax_edge, lmax_hidden
        See :class:`equigeo.potentials.PotentialConfig`.

    Examples
    --------
    >>> config = PotentialRunConfig.of_preset("rmd17", "small")
    >>> PotentialRunConfig.from_dict(config.to_dict()) == config
    True
    """

    recipe: Recipe = POTENTIAL_PRESETS["default"].recipe
    preset: Literal["default", "small", "crystal", "energies"] = "default"
    subset: str = ""
    validation: int = 50
    energy_weight: float = 1.0
    forces_weight: float = 100.0
    stress_weight: float = 0.0
    energy_key: str = ""
    forces_key: str = ""
    stress_key: str = ""
    compile: bool = False
    product: ProductName = "channelwise"
    node: NodeName = "contraction"
    correlation: int = 3
    cutoff: float = 5.0
    channels: int = 32
    layers: int = 2
    lmax_edge: int = 3
    lmax_hidden: int = 1

    recipes: ClassVar[Mapping[str, Recipe]] = {
        name: preset.recipe for name, preset in POTENTIAL_PRESETS.items()
    }
    unused: ClassVar[tuple[str, ...]] = (
        *RunConfig.unused, "label_smoothing", "logit_adjustment", "jitter", "update_bn",
    )  # fmt: skip
    samples: ClassVar[str] = "frames of atoms"
    ranges: ClassVar[Mapping[str, Range]] = {
        **RunConfig.ranges,
        "validation": Range(1, 10**6),
        "energy_weight": Range(0.0, 1e9),
        "forces_weight": Range(0.0, 1e9),
        "stress_weight": Range(0.0, 1e9),
        **{
            name: PotentialConfig.ranges[name]
            for name in ("cutoff", "channels", "lmax_edge", "lmax_hidden", "layers", "correlation")
        },
    }

    def __post_init__(self) -> None:
        """Validate ranges and that at least one label is learned."""
        super().__post_init__()
        if not (self.energy_weight or self.forces_weight or self.stress_weight):
            raise ValueError("one of the weights of energies, forces and stresses must be positive")
        for name in ("energy_key", "forces_key", "stress_key"):
            if len(getattr(self, name)) > _LONGEST_KEY:
                raise ValueError(f"{name} must have at most {_LONGEST_KEY} characters")

    @classmethod
    def of_preset(cls, data: str, preset: str = "default") -> PotentialRunConfig:
        """Return recipe, model and weights of a preset."""
        base = super().of_preset(data, preset)
        return cls(base.data, base.recipe, base.preset, **POTENTIAL_PRESETS[preset].settings)

    def model(self, species: tuple[int, ...]) -> PotentialConfig:
        """Return the configuration of a potential for some elements."""
        return PotentialConfig(
            species=species,
            cutoff=self.cutoff,
            channels=self.channels,
            lmax_edge=self.lmax_edge,
            lmax_hidden=self.lmax_hidden,
            layers=self.layers,
            product=self.product,
            node=self.node,
            correlation=self.correlation,
        )
