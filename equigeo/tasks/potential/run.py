"""Fit and trained model of interatomic potentials."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from equigeo.datasets import AtomicFrames, format_extxyz
from equigeo.datasets.atoms.frames import symbol
from equigeo.nn.module import evaluating
from equigeo.potentials import MessagePassingPotential, fit_references
from equigeo.tasks.potential.data import (
    AtomicSource,
    FrameErrors,
    PotentialData,
    PotentialRunConfig,
    check_species,
    measure_errors,
)
from equigeo.tasks.potential.objective import CompiledObjective, EnergyForcesStress
from equigeo.training.objective import Objective
from equigeo.training.plan import FitPlan
from equigeo.training.process import enter_stream
from equigeo.training.trained_model import TrainedModel


def plan_fit(
    config: PotentialRunConfig,
    data: PotentialData,
    model: nn.Module | None = None,  # trained instead of the preset's, with its references
) -> FitPlan:
    """Build edges, potential and fit; the history has validation errors of forces and energies."""
    source = AtomicSource.of_frames(data.train, config.cutoff)
    if model is None:
        enter_stream(config.seed, "model")
        model = MessagePassingPotential(config.model(data.split.train.species))
        set_references(model, data, source.avg_neighbors)
    validation = AtomicSource.of_frames(data.validation, config.cutoff)
    loss = EnergyForcesStress.of(config)
    objective: Objective = CompiledObjective(loss) if config.compile else loss
    evaluate = partial(_evaluate, validation, bool(config.forces_weight))
    return FitPlan(config, model, (), source, objective, evaluate)


def set_references(
    model: MessagePassingPotential, data: PotentialData, avg_neighbors: float
) -> None:
    """Set the reference energies and the scale of a potential from its training frames."""
    e0 = reference_energies(data)
    # RMS of forces, or of energies per atom without references.
    labelled = [frame for frame in data.train if frame.forces is not None]
    if labelled:
        scale = AtomicFrames(tuple(labelled)).stacked_forces().square().mean().sqrt().item()
    else:
        scale = _spread(data.train, dict(zip(data.split.train.species, e0, strict=True)))
    # labels that are all alike have no scale of their own
    model.set_references(e0, scale if scale > 0 else 1.0, avg_neighbors or 1.0)


def reference_energies(data: PotentialData) -> Sequence[float]:
    """Return the energy in eV of an atom of each element, ascending by atomic number."""
    # Energies of isolated atoms if known, else least squares on `data.train`; elements without data
    # get zero, the solution of least norm.
    species, isolated = data.split.train.species, data.split.isolated
    numbers, energies = [], []
    for frame in data.train:
        known = [z for z in frame.numbers.tolist() if z in isolated]
        if frame.energy is not None and len(known) < len(frame):
            numbers.append([z for z in frame.numbers.tolist() if z not in isolated])
            energies.append(frame.energy - sum(isolated[z] for z in known))
    found = dict(isolated)
    if numbers:
        fitted = fit_references(numbers, energies)
        found |= zip(fitted.species, fitted.energies, strict=True)
    return [found.get(z, 0.0) for z in species]


def reference_source(data: PotentialData) -> str:
    """Return the source of the reference energies."""
    species, isolated = data.split.train.species, data.split.isolated
    known, fitted = (
        " ".join(symbol(z) for z in species if (z in isolated) == kind) for kind in (True, False)
    )
    if not known or not fitted:
        return "isolated atoms" if known else "least squares"
    return f"isolated atoms ({known}) and least squares ({fitted})"


def _spread(frames: AtomicFrames, e0: dict[int, float]) -> float:
    rest = [
        (frame.energy - sum(e0[z] for z in frame.numbers.tolist())) / len(frame)
        for frame in frames
        if frame.energy is not None
    ]
    return float(np.sqrt(np.mean(np.square(rest)))) if rest else 1.0


def _evaluate(validation: AtomicSource, forces: bool, model: nn.Module) -> dict[str, float]:
    """Return errors of forces, of energies per atom, and the one shown during training."""
    with torch.enable_grad(), evaluating(model):
        errors = measure_errors(model, validation)
    per_atom = replace(errors, periodic=True).energy_mae
    found = {
        "validation_force_mae": errors.force_mae, "validation_energy_mae": per_atom,
        "validation_error": errors.force_mae if forces else per_atom,
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


FORMATS: Final = ("extxyz", "json")


class TrainedPotential(TrainedModel[PotentialRunConfig]):
    """Trained potential, as ``equigeo evaluate`` loads it."""

    task, what, config_type = "potential", "potential", PotentialRunConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
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
        forces = found.forces.double().split(found.counts.tolist())
        predicted = (
            replace(
                frame,
                energy=found.energy[k].item(),
                forces=forces[k],
                stress=found.stress[k] if all(frame.pbc) else None,
            )
            for k, frame in enumerate(frames)
        )
        return AtomicFrames(tuple(predicted), frames.name)


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
