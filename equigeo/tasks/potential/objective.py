"""The objective of potentials: energies, forces and stresses at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from equigeo.potentials.potential_output import has_stress, stress_over_cell
from equigeo.tasks.potential.config import PotentialRunConfig
from equigeo.tasks.potential.data import AtomicSamples
from equigeo.training.labelled_source import LabelledBatch
from equigeo.training.objective import Objective

_MILLI = 1e3  # meV of an eV


@dataclass(frozen=True)
class EnergyForcesStress(Objective):
    r"""Weighted mean squared errors of energies per atom, force components and stresses.

    .. math:: w_E\,\overline{((E - E^*)/N)^2} + w_F\,\overline{(F - F^*)^2} +
              w_S\,\overline{(\sigma - \sigma^*)^2}

    Means are over existing labels. Weights are of (eV/atom)^2, (eV/angstrom)^2 and
    (eV/angstrom^3)^2. Stresses are over the volume of the cell; for slabs and wires, components
    along Cartesian axes within the periodic lattice vectors count. The measure is the mean absolute
    error of forces in meV/angstrom or, without a weight for them, of energies in meV/atom.

    Examples
    --------
    >>> EnergyForcesStress(1.0, 100.0).measure
    'error'
    """

    energy: float
    forces: float
    stress: float = 0.0

    measure: ClassVar[str] = "error"
    form: ClassVar[str] = ".1f"
    evaluated: ClassVar[str] = "validation_error"

    @classmethod
    def of(cls, config: PotentialRunConfig) -> EnergyForcesStress:
        """Build from the weights of a configuration."""
        return cls(config.energy_weight, config.forces_weight, config.stress_weight)

    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Return the means over a batch multiplied by its number of frames."""
        samples: AtomicSamples = batch.inputs
        found = model(samples.atoms, forces=self.forces > 0, stress=self.stress > 0)
        energy = (found.energy - samples.energy) / samples.counts
        measure = energy, ~samples.energy.isnan()
        terms = [(self.energy, *measure)]
        if self.forces:
            measure = found.forces - samples.forces, ~samples.forces.isnan()
            terms.append((self.forces, *measure))
        if self.stress:
            # a system without a periodic axis has no volume: its stress is NaN
            known = ~samples.stress.isnan() & has_stress(samples.atoms)[:, None, None]
            stress = stress_over_cell(found, samples.atoms)
            terms.append((self.stress, stress - samples.stress, known))
        loss = sum(weight * _mean(e, known, square=True) for weight, e, known in terms if weight)
        shown = _MILLI * _mean(measure[0].detach(), measure[1])
        frames = batch.labels.shape[0]  # len would be a number of the step that is recorded
        return frames * torch.as_tensor(loss), frames * shown.double()


def _mean(errors: Tensor, known: Tensor, square: bool = False) -> Tensor:
    """Average absolute values or squares over labelled entries; zero if there are none."""
    # No sizes that depend on values: the step is compiled, too.
    errors = torch.where(known, errors, 0.0)
    total = (errors.square() if square else errors.abs()).sum()
    return total / known.sum().clamp(min=1)
