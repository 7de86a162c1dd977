"""Interatomic potentials, learned from energies, forces and stresses."""

from equigeo.tasks.potential.cli import InteratomicPotential, potential_table
from equigeo.tasks.potential.config import POTENTIAL_PRESETS, PotentialPreset, PotentialRunConfig
from equigeo.tasks.potential.data import AtomicSamples, AtomicSource, PotentialData, load_frames
from equigeo.tasks.potential.errors import FrameErrors, measure_errors
from equigeo.tasks.potential.evaluate import PotentialEvaluation, evaluate_potential
from equigeo.tasks.potential.objective import EnergyForcesStress
from equigeo.tasks.potential.trained import TrainedPotential

__all__ = [
    "POTENTIAL_PRESETS",
    "AtomicSamples",
    "AtomicSource",
    "EnergyForcesStress",
    "FrameErrors",
    "InteratomicPotential",
    "PotentialData",
    "PotentialEvaluation",
    "PotentialPreset",
    "PotentialRunConfig",
    "TrainedPotential",
    "evaluate_potential",
    "load_frames",
    "measure_errors",
    "potential_table",
]


def __dir__() -> list[str]:
    return __all__
