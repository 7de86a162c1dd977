"""Energies and forces of our presets beside models of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.peers import Library, of_module
from bench.row import Problem, Row, library, needs
from equigeo.potentials import AtomicBatch, MessagePassingPotential, PotentialConfig
from tests.interop.interatomic import CUTOFF, MODELS, Atoms

COPPER = 29
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "small": {"channels": 16, "lmax_edge": 2},
    "crystal": {"channels": 16},
}
"""Sizes of the presets of the command line; "energies" has those of "default"."""
ATOMS = {32: 2, 108: 3, 1372: 7}
"""Of copper, by unit cells along an axis."""
# Sizes near those of our default preset: channels, degrees, rounds of messages.
OF_EQUAL_SIZE: dict[str, dict[str, Any]] = {
    "mace": {"hidden_irreps": "32x0e+32x1o", "num_interactions": 2},
    "nequip": {"num_features": 32, "num_layers": 3, "l_max": 2},
    "sevenn": {"channel": 32, "lmax": 2, "num_convolution_layer": 3},
}


def peer(name: str, atoms: Atoms) -> Library:
    build, evaluate = MODELS[name]
    model = build(torch.float32, **OF_EQUAL_SIZE[name])
    return library(torch.enable_grad()(lambda: evaluate(model, atoms)), [])


def potential(preset: str, cells: int) -> Problem:
    """One evaluation of energy and forces of a crystal with given neighbors."""
    atoms = Atoms.copper(cells, torch.float32)
    config = PotentialConfig((COPPER,), CUTOFF, avg_neighbors=42.0, **PRESETS[preset])
    model = MessagePassingPotential(config)
    numbers = torch.full((len(atoms.positions),), COPPER)
    cell = atoms.length * torch.eye(3)
    batch = AtomicBatch.from_systems([(numbers, atoms.positions, cell, True)], CUTOFF)

    def call() -> tuple[Tensor, Tensor]:
        found = model(batch)
        return found.energy, found.forces

    peers: dict[str, Library | str] = {
        name: needs(name, "make bench-interop", partial(peer, name, atoms))
        for name in OF_EQUAL_SIZE
    }
    return Problem(of_module(model, [], call), peers)


def rows() -> list[Row]:
    makes: dict[tuple[str, int], Callable[[], Problem]] = {
        (preset, atoms): partial(potential, preset, cells)
        for preset in PRESETS
        for atoms, cells in ATOMS.items()
    }
    return [
        Row(
            "potentials.MessagePassingPotential", f"{preset}, {atoms:,} atoms of copper", make,
            ("forward",), atoms, "atom", "short" if atoms == 32 else "usual",
        )
        for (preset, atoms), make in makes.items()
    ]  # fmt: skip
