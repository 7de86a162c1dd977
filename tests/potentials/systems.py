"""Small systems, and small potentials for them."""

from typing import Any

import torch
from torch import Tensor

from equigeo.potentials import AtomicBatch, MessagePassingPotential, PotentialConfig

CUTOFF = 4.0
SPECIES = (1, 6, 8)
NUMBERS = torch.tensor([8, 1, 6, 1, 1, 6])
POSITIONS = torch.tensor(
    [
        [0.0, 0.1, 0.2],
        [0.9, -0.3, 0.4],
        [-0.6, 1.2, 0.1],
        [-0.2, 2.1, -0.5],
        [-1.7, 0.9, 0.6],
        [-0.8, 1.6, 1.7],
    ],
    dtype=torch.float64,
)
MOLECULE = (NUMBERS, POSITIONS, None, False)
CELL = torch.tensor([[3.1, 0.2, 0.0], [-0.4, 2.9, 0.3], [0.5, 0.1, 3.3]], dtype=torch.float64)
CRYSTAL = (
    torch.tensor([6, 8]),
    torch.tensor([[0.1, 0.0, 0.2], [1.4, 1.7, 1.5]], dtype=torch.float64),
    CELL,
    True,
)
SLAB = (*CRYSTAL[:3], [True, True, False])


def potential(seed: int = 0, **changes: Any) -> MessagePassingPotential:
    """Random weights, in float64, with references that are not trivial."""
    settings: dict[str, Any] = {
        "species": SPECIES,
        "cutoff": CUTOFF,
        "channels": 4,
        "lmax_edge": 2,
        "radial_hidden": (16,),
        "avg_neighbors": 5.0,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = MessagePassingPotential(PotentialConfig(**settings | changes)).double().eval()
        for embed in model.states.values():
            torch.nn.init.normal_(embed.weight)
    model.set_references([-13.6, -1029.5, -2041.98], [0.9, 1.1, 1.3])
    return model


def batch_of(*systems: Any, cutoff: float = CUTOFF, **states: Any) -> AtomicBatch:
    return AtomicBatch.from_systems(systems, cutoff, dtype=torch.float64, **states)


MOMENTS = ("dipole", "polarizability")


def moved(system: Any, positions: Tensor, cell: Tensor | None = None) -> Any:
    """The same system with other positions, and another cell where it has one."""
    return (system[0], positions, system[2] if cell is None else cell, system[3])
