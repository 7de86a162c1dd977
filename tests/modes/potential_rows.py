"""Rows of the layers of :mod:`equigeo.potentials`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo import potentials
from tests.modes.row import Row, beside

MOLECULE = (
    torch.tensor([8, 1, 1, 6]),
    torch.tensor([[0.0, 0.1, 0.0], [0.8, 0.6, 0.1], [-0.8, 0.6, -0.2], [0.3, -1.1, 0.4]]).double(),
    None,
    False,
)


def potential_rows() -> list[Row]:
    batch = potentials.AtomicBatch.from_systems([MOLECULE] * 2, 2.5, dtype=torch.float64)
    config = potentials.PotentialConfig((1, 6, 8), 2.5, channels=2, lmax_edge=1, radial_hidden=(4,))

    def energies(model: Any, positions: Tensor) -> Tensor:
        found: Tensor = model.energies(beside(batch, positions).with_positions(positions))
        return found.to(positions.dtype)  # energies are in float64 whatever positions are in

    return [
        Row(
            "potentials.MessagePassingPotential",
            lambda: potentials.MessagePassingPotential(config),
            lambda: (batch.positions.clone(),),
            energies,
            "potentials.MessagePassingPotential",
            rows=False,
        )
    ]
