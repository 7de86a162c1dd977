"""Interatomic potentials, learned from energies, forces and stresses."""

from equigeo._deprecation import Renamed, renamed
from equigeo.tasks.potential.cli import InteratomicPotential
from equigeo.tasks.potential.cli import potential_table as _potential_table
from equigeo.tasks.potential.config import POTENTIAL_PRESETS as _POTENTIAL_PRESETS
from equigeo.tasks.potential.config import PotentialPreset as _PotentialPreset
from equigeo.tasks.potential.config import PotentialRunConfig
from equigeo.tasks.potential.data import AtomicSamples as _AtomicSamples
from equigeo.tasks.potential.data import AtomicSource, PotentialData, load_frames
from equigeo.tasks.potential.errors import FrameErrors, measure_errors
from equigeo.tasks.potential.evaluate import PotentialEvaluation as _PotentialEvaluation
from equigeo.tasks.potential.evaluate import evaluate_potential
from equigeo.tasks.potential.objective import EnergyForcesStress
from equigeo.tasks.potential.trained import TrainedPotential

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


def __dir__() -> list[str]:
    return __all__


_PRIVATE = {
    "POTENTIAL_PRESETS": ("PotentialRunConfig.of_preset", _POTENTIAL_PRESETS),
    "PotentialPreset": ("PotentialRunConfig.of_preset", _PotentialPreset),
    "AtomicSamples": ("AtomicSource", _AtomicSamples),
    "PotentialEvaluation": ("evaluate_potential", _PotentialEvaluation),
    "potential_table": ("InteratomicPotential.evaluate", _potential_table),
}
__getattr__ = renamed(
    __name__, {old: Renamed(new, "0.3", private) for old, (new, private) in _PRIVATE.items()}
)
