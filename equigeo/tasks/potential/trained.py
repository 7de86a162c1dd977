"""Trained potential."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from equigeo.datasets import AtomicFrame, AtomicFrames, format_extxyz
from equigeo.datasets.atoms.chemical_symbols import symbol
from equigeo.potentials import MessagePassingPotential
from equigeo.tasks.potential.config import PotentialRunConfig
from equigeo.tasks.potential.data import AtomicSource, check_species
from equigeo.tasks.potential.errors import FrameErrors, measure_errors
from equigeo.training.trained_model import TrainedModel

FORMATS: Final = ("extxyz", "json")


class TrainedPotential(TrainedModel[PotentialRunConfig]):
    """Trained potential, as ``equigeo evaluate`` loads it."""

    task, what, config_type = "potential", "potential", PotentialRunConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        """Build the potential from its ``config``."""
        return MessagePassingPotential.from_config(model)

    @property
    def species(self) -> str:
        """Symbols of the supported elements."""
        return " ".join(map(symbol, self.model.config.species))

    def errors(self, frames: AtomicFrames) -> FrameErrors:
        """Compute energies, forces and, for periodic frames, stresses, with the labels.

        Raises ``ValueError`` for elements that the potential does not support.
        """
        check_species(frames, self.model.config.species, self.species)
        source = AtomicSource.of_frames(frames, self.model.config.cutoff)
        return measure_errors(self.model, source, stress=any(any(f.pbc) for f in frames))

    def predict_frames(self, frames: AtomicFrames) -> AtomicFrames:
        """Return the same structures with predicted energies, forces and stresses (eV, angstrom).

        Stresses are predicted if all axes are periodic. Other fields of the frames stay.
        """
        found = self.errors(frames)
        return AtomicFrames(tuple(_predicted(frames, found)), frames.name)


def _predicted(frames: AtomicFrames, found: FrameErrors) -> Iterator[AtomicFrame]:
    forces = found.forces.double().split(found.counts.tolist())
    for k, frame in enumerate(frames):
        yield replace(
            frame,
            energy=found.energy[k].item(),
            forces=forces[k],
            stress=found.stress[k] if all(frame.pbc) else None,
        )


def format_predictions(frames: AtomicFrames, path: Path) -> dict[str, bytes]:
    """Write predictions as extended XYZ and as JSON, by the suffix of the file name."""
    content = {
        "file": path.name,
        "units": {"energy": "eV", "forces": "eV/A", "stress": "eV/A^3"},
        "frames": [
            {
                "name": frame.name,
                "formula": frame.formula,
                "energy": frame.energy,
                "forces": None if frame.forces is None else frame.forces.tolist(),
                "stress": None if frame.stress is None else frame.stress.tolist(),
            }
            for frame in frames
        ],
    }
    return {
        ".predicted.extxyz": format_extxyz(frames).encode(),
        ".predicted.json": (json.dumps(content) + "\n").encode(),
    }
