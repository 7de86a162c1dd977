"""Interatomic potentials, learned from energies, forces and stresses."""

from equigeo._core.deprecation import Renamed, renamed
from equigeo.tasks.potential.data import POTENTIAL_PRESETS as _POTENTIAL_PRESETS
from equigeo.tasks.potential.data import AtomicSamples as _AtomicSamples
from equigeo.tasks.potential.data import (
    AtomicSource,
    FrameErrors,
    PotentialData,
    PotentialRunConfig,
    load_frames,
    measure_errors,
)
from equigeo.tasks.potential.data import PotentialPreset as _PotentialPreset
from equigeo.tasks.potential.objective import EnergyForcesStress
from equigeo.tasks.potential.run import TrainedPotential
from equigeo.tasks.potential.task import InteratomicPotential, evaluate_potential
from equigeo.tasks.potential.task import PotentialEvaluation as _PotentialEvaluation
from equigeo.tasks.potential.task import potential_table as _potential_table

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
