"""Energies and their derivatives, as a potential gives them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.graphs.brief_repr import brief_repr
from equigeo.ops.runtime.torch_internals import register_structure
from equigeo.potentials.atomic_batch import AtomicBatch


@dataclass(frozen=True, eq=False, repr=False)
class PotentialOutput:
    """What a potential says of a batch.

    Parameters
    ----------
    energy : Tensor, (systems,), float64
        In eV.
    energies : Tensor, (atoms,), float64
        Share of each atom, in eV.
    forces : Tensor, (atoms, 3), dtype of positions, or None
        Minus the gradient of the energy, in eV/angstrom.
    stress : Tensor, (systems, 3, 3), float64, or None
        Derivative of the energy to strain over the volume, in eV/angstrom^3: positive where a
        crystal wants to shrink, as in ASE. NaN for a system without three periodic axes.
    virial : Tensor, (systems, 3, 3), float64, or None
        Minus the derivative of the energy to strain, in eV, of any system.
    """

    energy: Tensor
    energies: Tensor
    forces: Tensor | None = None
    stress: Tensor | None = None
    virial: Tensor | None = None

    __repr__ = brief_repr


register_structure(PotentialOutput, serialized_type_name="equigeo.potentials.PotentialOutput")


def sum_by_system(energies: Tensor, batch: AtomicBatch) -> Tensor:
    """Add the energies of the atoms of each system.

    Parameters
    ----------
    energies : Tensor, (atoms,), float64
        Of atoms.
    batch : AtomicBatch
        The systems.

    Returns
    -------
    Tensor, (systems,), float64
        Sums.
    """
    return energies.new_zeros(batch.num_systems).index_add(0, batch.batch, energies)


def stress_of(virial: Tensor, batch: AtomicBatch) -> Tensor:
    """Divide by volumes what has one.

    Parameters
    ----------
    virial : Tensor, (systems, 3, 3), float64
        Minus the derivative to strain, in eV.
    batch : AtomicBatch
        The systems.

    Returns
    -------
    Tensor, (systems, 3, 3), float64
        In eV/angstrom^3; NaN where an axis is not periodic, for any volume would be invented.
    """
    if batch.cell is None:
        return torch.full_like(virial, torch.nan)
    periodic = batch.pbc.all(dim=1)[:, None, None]
    volume = torch.linalg.det(batch.cell.double()).abs()[:, None, None]
    return torch.where(periodic, -virial / torch.where(periodic, volume, 1.0), torch.nan)
