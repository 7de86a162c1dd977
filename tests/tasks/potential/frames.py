"""Frames whose labels are those of a potential that is known: Lennard-Jones, switched off at 3."""

from pathlib import Path

import numpy as np
import torch

from equigeo.datasets import AtomicFrame, AtomicFrames
from equigeo.graphs import neighbor_list
from equigeo.tasks.potential import PotentialRunConfig
from equigeo.training import Recipe

CUTOFF = 3.0
_OFFSET = {1: -13.0, 6: -1000.0}


def labelled(numbers, positions, cell=None, scale=0.2, name="", pbc=None):
    """Energy, forces and stress of pairs, exactly, by differentiation."""
    x = positions.clone().requires_grad_()
    strain = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    deformed = torch.eye(3, dtype=torch.float64) + (strain + strain.T) / 2
    lattice = None if cell is None else cell @ deformed
    pbc = (cell is not None,) * 3 if pbc is None else pbc
    periodic = torch.tensor(pbc)
    r = neighbor_list(x @ deformed, CUTOFF, lattice, periodic).vectors.norm(dim=1)
    switch = (1 - (r / CUTOFF) ** 2) ** 3
    pairs = 0.5 * scale * ((1.2 / r) ** 6 - (1.2 / r) ** 3) * switch
    energy = pairs.sum()
    slope, work = torch.autograd.grad(energy, [x, strain])
    shift = sum(_OFFSET[z] for z in numbers.tolist())
    stress = None if cell is None else work / cell.det().abs()
    return AtomicFrame(
        numbers, positions, cell, pbc, energy.item() + shift, -slope, stress, name,
    )  # fmt: skip


CHAIN = torch.tensor(
    [[0.0, 0, 0], [1.4, 0, 0], [-0.5, 1.0, 0], [1.9, -1.0, 0.1], [-0.4, -0.6, 0.9]],
    dtype=torch.float64,
)


def molecules(number=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.tensor([6, 6, 1, 1, 1])
    moved = [
        CHAIN + 0.1 * torch.randn(5, 3, generator=generator, dtype=torch.float64)
        for _ in range(number)
    ]
    frames = [labelled(numbers, x, name=f"chain {k}") for k, x in enumerate(moved)]
    return AtomicFrames(tuple(frames), "chains")


def crystals(number=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    frames = []
    for k in range(number):
        noise = torch.randn(3, 3, generator=generator, dtype=torch.float64)
        cell = 2.2 * torch.eye(3, dtype=torch.float64) + 0.05 * noise
        sites = torch.tensor([[0.0, 0, 0], [1.1, 1.1, 1.1]], dtype=torch.float64)[: 1 + k % 2]
        frames.append(labelled(torch.full((len(sites),), 6), sites, cell, name=f"crystal {k}"))
    return AtomicFrames(tuple(frames), "crystals")


def slabs(number=8):
    """Two layers with 6 angstrom of vacuum, not periodic along the third axis."""
    frames = []
    for k, frame in enumerate(crystals(2 * number)[1::2]):
        cell = frame.cell.clone()
        cell[:2, 2] = 0.0
        cell[2] = torch.tensor([0.0, 0.0, 8.0])
        plane = (True, True, False)
        frames.append(labelled(frame.numbers, frame.positions, cell, name=f"slab {k}", pbc=plane))
    return AtomicFrames(tuple(frames), "slabs")


def write(folder: Path, train=12, test=6) -> Path:
    """As files of rMD17, whose energies are in kcal/mol."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (part, number) in enumerate({"train": train, "test": test}.items()):
        frames = molecules(number, seed)
        kcal = 0.04336410390059322
        np.savez(
            folder / f"rmd17_ethanol_{part}_01.npz",
            nuclear_charges=frames[0].numbers.numpy().astype(np.uint8),
            coords=np.stack([f.positions.numpy() for f in frames]),
            energies=np.array([f.energy for f in frames]) / kcal,
            forces=np.stack([f.forces.numpy() for f in frames]) / kcal,
        )
    return folder


SMALL = {"channels": 4, "lmax_edge": 1, "cutoff": CUTOFF, "correlation": 2, "validation": 4}


def small_config(folder, **changes):
    recipe = Recipe(
        epochs=2, batch_size=3, learning_rate=0.01, optimizer="adam", schedule="warm_cosine",
        warmup=2, ema_decay=0.9, clip_norm=10.0,
    )  # fmt: skip
    values = {"recipe": recipe, "subset": "ethanol", **SMALL, **changes}
    return PotentialRunConfig(str(folder), **values)
