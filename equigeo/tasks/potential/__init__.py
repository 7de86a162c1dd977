"""Interatomic potentials, learned from energies, forces and stresses."""

from equigeo._core.deprecation import private_names, renamed
from equigeo.tasks.potential.data import (
    AtomicSource,
    PotentialData,
    PotentialRunConfig,
    load_frames,
)
from equigeo.tasks.potential.errors import FrameErrors, measure_errors
from equigeo.tasks.potential.objective import EnergyForcesStress
from equigeo.tasks.potential.task import InteratomicPotential, TrainedPotential, evaluate_potential

__all__ = [
    "AtomicSource",
    "EnergyForcesStress",
    "FrameErrors",
    "InteratomicPotential",
    "PotentialData",
    "PotentialRunConfig",
    "TrainedPotential",
    "evaluate_potential",
    "load_frames",
    "measure_errors",
]
__dir__ = __all__.copy


_PRIVATE = {
    "POTENTIAL_PRESETS": ("equigeo.tasks.potential.data", "PotentialRunConfig.of_preset"),
    "PotentialPreset": ("equigeo.tasks.potential.data", "PotentialRunConfig.of_preset"),
    "AtomicSamples": ("equigeo.tasks.potential.data", "AtomicSource"),
    "PotentialEvaluation": ("equigeo.tasks.potential.errors", "evaluate_potential"),
    "potential_table": ("equigeo.tasks.potential.errors", "InteratomicPotential.evaluate"),
}
__getattr__ = renamed(__name__, private_names("0.3", _PRIVATE))
