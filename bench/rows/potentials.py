"""Energies and forces of our presets beside models of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.peers import AS_IT_IS, Library, of_module
from bench.row import Problem, Row, library, needs
from equigeo.graphs import neighbor_list
from equigeo.potentials import AtomicBatch, MessagePassingPotential, PotentialConfig
from tests.interop.interatomic import CUTOFF, MODELS, Atoms

COPPER = 29
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "small": {"channels": 16, "lmax_edge": 2},
    "crystal": {"channels": 16},
}
"""Sizes of the presets of the command line; "energies" has those of "default"."""
ATOMS = {32: 2, 108: 3, 1372: 7, 6912: 12}
"""Of copper, by unit cells along an axis; the most need 14 GB with the largest peer."""


def of_equal_width(config: PotentialConfig) -> dict[str, dict[str, Any]]:
    """Options of peers with as many channels; degrees and layers are customary ones."""
    width, lmax = config.channels, config.lmax_edge
    return {
        "mace": {"hidden_irreps": f"{width}x0e+{width}x1o", "max_ell": lmax},
        "nequip": {"num_features": width, "num_layers": 3, "l_max": 2},
        "sevenn": {"channel": width, "lmax": 2, "num_convolution_layer": 3},
    }


def peer(name: str, atoms: Atoms, options: dict[str, Any]) -> Library:
    build, evaluate = MODELS[name]
    model = build(torch.float32, **options)
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
        f"{name} of equal width": needs(
            name, f"make bench-{name}", partial(peer, name, atoms, options)
        )
        for name, options in of_equal_width(config).items()
    }
    return Problem(of_module(model, [], call), peers)


def neighbors(cells: int) -> Problem:
    """Sorted lists with vectors, periodic; beside libraries that neither sort nor validate."""
    atoms = Atoms.copper(cells, torch.float64)
    positions, cell = atoms.positions, atoms.length * torch.eye(3, dtype=torch.float64)
    x, box, everywhere = positions.numpy(), cell.numpy(), np.full(3, True)
    ours = library(lambda: neighbor_list(positions, 5.0, cell, True, backend="scipy"), [])
    edges = ours.modes[AS_IT_IS]().num_edges

    def checked(call: Callable[[], Any]) -> Library:
        assert len(call()[0]) == edges
        return library(call, [])

    def vesin() -> Library:
        search = import_module("vesin").NeighborList(cutoff=5.0, full_list=True, n_threads=1)
        given = {"points": x, "box": box, "periodic": everywhere, "quantities": "ijSD"}
        return checked(partial(search.compute, **given))

    def matscipy() -> Library:
        search = import_module("matscipy.neighbours").neighbour_list
        return checked(lambda: search("ijSD", positions=x, cell=box, pbc=everywhere, cutoff=5.0))

    peers = {
        "vesin": needs("vesin", "make bench-torch-sim", vesin),
        "matscipy": needs("matscipy", "make bench-sevenn", matscipy),
    }
    return Problem(ours, peers)


def rows() -> list[Row]:
    lists = [
        Row(
            "graphs.neighbor_list", f"{4 * cells**3:,} atoms, periodic", partial(neighbors, cells),
            ("forward",), 4 * cells**3, "atom", "short" if cells == 3 else "usual",
            "The peers neither sort edges nor validate.", ("sevenn", "torch-sim"),
        )
        for cells in (3, 6, 29)
    ]  # fmt: skip
    sizes = {32: "short", 6912: "large"}
    return lists + [
        Row(
            "potentials.MessagePassingPotential", f"{preset}, {atoms:,} atoms of copper",
            partial(potential, preset, cells), ("forward",), atoms, "atom",
            sizes.get(atoms, "usual"), libraries=("mace", "nequip", "sevenn"),
        )
        for preset in PRESETS
        for atoms, cells in ATOMS.items()
        if preset == "default" or atoms < 6912
    ]  # fmt: skip
