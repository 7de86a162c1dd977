"""Output of a potential."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo._core.brief import brief_repr
from equigeo._core.tensors import register_structure
from equigeo.potentials.batch import AtomicBatch


@dataclass(frozen=True, eq=False, repr=False)
class PotentialOutput:
    """Energies and derivatives of a batch.

    Parameters
    ----------
    energy : Tensor, (systems,), float64
        In eV.
    energies : Tensor, (atoms,), float64
        Share of each atom, in eV.
    forces : Tensor, (atoms, 3), dtype of positions, or None
        Minus the gradient of the energy, in eV/angstrom.
    stress : Tensor, (systems, 3, 3), float64, or None
        Derivative of the energy to strain over the volume, in eV/angstrom^3, with the sign of ASE:
        positive if a crystal would shrink. NaN for a system without three periodic axes.
    virial : Tensor, (systems, 3, 3), float64, or None
        Minus the derivative of the energy to strain, in eV, of any system.

    Examples
    --------
    >>> output = PotentialOutput(torch.tensor([-1.5]), torch.tensor([-1.0, -0.5]))
    >>> output.energies.sum() == output.energy[0]
    tensor(True)
    """

    energy: Tensor
    energies: Tensor
    forces: Tensor | None = None
    stress: Tensor | None = None
    virial: Tensor | None = None

    __repr__ = brief_repr


register_structure(PotentialOutput, serialized_type_name="equigeo.potentials.PotentialOutput")


def sum_by_system(
    energies: Tensor,  # (atoms,) float64
    batch: AtomicBatch,
) -> Tensor:
    """Sum atomic energies per system, (systems,)."""
    return energies.new_zeros(batch.num_systems).index_add(0, batch.batch, energies)


def has_stress(batch: AtomicBatch) -> Tensor:
    """Return which systems have a periodic axis and a cell with a volume, (systems,), bool."""
    periodic = batch.pbc.any(dim=1)
    if batch.cell is None:
        return torch.zeros_like(periodic)
    return periodic & (torch.linalg.det(batch.cell.double()) != 0)


def stress_over_cell(out: PotentialOutput, batch: AtomicBatch) -> Tensor:
    """Return stresses, (systems, 3, 3); of slabs and wires, over the volume of the given cell."""
    stress: Any = out.stress
    if batch.cell is None or out.virial is None:
        return torch.as_tensor(stress)
    given = (has_stress(batch) & ~batch.pbc.all(dim=1))[:, None, None]
    volume = torch.linalg.det(batch.cell.double()).abs()[:, None, None]
    return torch.where(given, -out.virial / torch.where(given, volume, 1.0), stress)


def stress_of(
    virial: Tensor,  # (systems, 3, 3): minus the strain derivative in eV
    batch: AtomicBatch,
) -> Tensor:
    """Return stress in eV/angstrom^3, (systems, 3, 3); NaN if an axis is not periodic."""
    if batch.cell is None:
        return torch.full_like(virial, torch.nan)
    periodic = batch.pbc.all(dim=1)[:, None, None]
    volume = torch.linalg.det(batch.cell.double()).abs()[:, None, None]
    return torch.where(periodic, -virial / torch.where(periodic, volume, 1.0), torch.nan)
