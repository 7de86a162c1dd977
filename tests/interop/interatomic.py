"""Models of NequIP and MACE with random weights, and a crystal to evaluate them on.

Each library is imported by the function that builds its model: both are found only in environments
of their own (``make test-interop``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor, nn

from equigeo.interop._require import require_e3nn

CUTOFF = 4.75  # Angstrom: three shells of copper, 42 neighbours
SPACING = 3.615  # Angstrom


@dataclass(frozen=True)
class Crystal:
    """Copper, face-centred cubic, periodic, every atom moved a little.

    ``edges`` point from row 0 to row 1; ``shifts`` counts the cells between their ends.
    """

    positions: Tensor
    length: float
    edges: Tensor
    shifts: Tensor

    @classmethod
    def copper(cls, cells: int, dtype: torch.dtype) -> Crystal:
        rng = np.random.default_rng(np.random.SeedSequence([0, cells]))
        corners = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), -1).reshape(
            -1, 1, 3
        )
        basis = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
        length = cells * SPACING
        ideal = ((corners + basis) * SPACING).reshape(-1, 3)
        positions = (ideal + rng.normal(0, 0.05, ideal.shape)) % length
        tree = cKDTree(positions, boxsize=length)
        pairs = tree.query_pairs(CUTOFF, output_type="ndarray")
        edges = np.concatenate([pairs, pairs[:, ::-1]]).T
        shifts = -np.round((positions[edges[1]] - positions[edges[0]]) / length)
        to_torch = [torch.tensor(positions), torch.tensor(shifts)]
        moved, cell_shifts = (value.to(dtype) for value in to_torch)
        return cls(moved, length, torch.tensor(edges), cell_shifts)


def nequip(dtype: torch.dtype, **options: Any) -> nn.Module:
    """Build a NequIP model of copper."""
    from nequip.model import NequIPGNNModel
    from nequip.utils.global_state import set_global_state

    set_global_state()
    known = {"num_layers": 3, "l_max": 2, "num_features": 64, **options}
    return NequIPGNNModel(
        seed=0,
        model_dtype=str(dtype).removeprefix("torch."),
        r_max=CUTOFF,
        type_names=["Cu"],
        avg_num_neighbors=42.0,
        per_type_energy_scales=1.0,
        per_type_energy_shifts=0.0,
        **known,
    ).eval()


def nequip_frames(crystal: Crystal, order: Tensor) -> dict[str, Tensor]:
    """Give two copies of a crystal, one stretched, as NequIP batches frames."""
    atoms = len(crystal.positions)
    edges = torch.cat([crystal.edges, crystal.edges + atoms], dim=1)
    return {
        "pos": torch.cat([crystal.positions, 1.01 * crystal.positions]).double(),
        "cell": torch.eye(3).double() * crystal.length * torch.tensor([1.0, 1.01])[:, None, None],
        "edge_index": edges[:, order],
        "edge_cell_shift": torch.cat([crystal.shifts] * 2)[order].double(),
        "atom_types": torch.zeros(2 * atoms, dtype=torch.int64),
        "batch": torch.arange(2).repeat_interleave(atoms),
        "num_atoms": torch.tensor([atoms, atoms]),
    }


def evaluate_nequip(model: nn.Module, crystal: Crystal) -> tuple[Tensor, Tensor]:
    """Give energy and forces; in training mode differentiable by the parameters."""
    out = model(
        {
            "pos": crystal.positions.double(),
            "cell": torch.eye(3, dtype=torch.float64)[None] * crystal.length,
            "edge_index": crystal.edges,
            "edge_cell_shift": crystal.shifts.double(),
            "atom_types": torch.zeros(len(crystal.positions), dtype=torch.int64),
        }
    )
    return out["total_energy"].squeeze(), out["forces"]


def mace(
    dtype: torch.dtype, block: str = "RealAgnosticResidualInteractionBlock", **options: Any
) -> nn.Module:
    """Build a MACE model of copper."""
    o3 = require_e3nn()
    from mace import modules

    hidden = options.pop("hidden_irreps", "128x0e+128x1o")
    known = {"max_ell": 3, "correlation": 3, "num_interactions": 2, **options}
    with default_dtype(dtype), torch.random.fork_rng():
        torch.manual_seed(0)
        return modules.MACE(
            r_max=CUTOFF,
            num_bessel=8,
            num_polynomial_cutoff=5,
            interaction_cls=getattr(modules, block),
            interaction_cls_first=getattr(modules, block),
            num_elements=1,
            hidden_irreps=o3.Irreps(hidden),
            MLP_irreps=o3.Irreps("16x0e"),
            atomic_energies=np.zeros(1),
            avg_num_neighbors=42.0,
            atomic_numbers=[29],
            gate=nn.functional.silu,
            **known,
        ).eval()


def evaluate_mace(model: nn.Module, crystal: Crystal) -> tuple[Tensor, Tensor]:
    """Give energy and forces; in training mode differentiable by the parameters."""
    atoms, dtype = len(crystal.positions), crystal.positions.dtype
    out = model(
        {
            "positions": crystal.positions.clone().requires_grad_(),
            "cell": torch.eye(3, dtype=dtype) * crystal.length,
            "edge_index": crystal.edges,
            "unit_shifts": crystal.shifts,
            "shifts": crystal.shifts * crystal.length,
            "node_attrs": torch.ones(atoms, 1, dtype=dtype),
            "batch": torch.zeros(atoms, dtype=torch.int64),
            "ptr": torch.tensor([0, atoms]),
            "head": torch.zeros(1, dtype=torch.int64),
        },
        training=model.training,
    )
    return out["energy"].squeeze(), out["forces"]


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


Evaluate = Callable[[nn.Module, Crystal], tuple[Tensor, Tensor]]
MODELS: dict[str, tuple[Callable[..., nn.Module], Evaluate]] = {
    "nequip": (nequip, evaluate_nequip),
    "mace": (mace, evaluate_mace),
}
