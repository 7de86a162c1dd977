"""MACE and NequIP, called as potentials of ours: energies and forces of batches of molecules.

Each library is imported where its model is built: both are found only in environments of their own
(``make test-interop``). Models are in float32; energies of single atoms are added in float64.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.datasets import AtomicFrames
from equigeo.datasets.atoms.frames import symbol
from equigeo.interop.optional import require_e3nn
from equigeo.potentials import AtomicBatch
from equigeo.potentials.batch import PotentialOutput, sum_by_system
from equigeo.tasks.potential import (
    AtomicSource,
    FrameErrors,
    PotentialData,
    PotentialRunConfig,
    measure_errors,
)
from equigeo.tasks.potential.start import reference_energies
from equigeo.training.process import enter_stream

OPTIONS: dict[str, dict[str, Any]] = {
    "mace": {
        "hidden_irreps": "32x0e+32x1o", "MLP_irreps": "16x0e", "max_ell": 3, "correlation": 3,
        "num_interactions": 2, "num_bessel": 8, "num_polynomial_cutoff": 5,
        "radial_MLP": [64, 64, 64], "use_reduced_cg": True,
        "interaction_cls": "RealAgnosticResidualInteractionBlock",
        "interaction_cls_first": "RealAgnosticResidualInteractionBlock",
    },
    "nequip": {
        "num_layers": 3, "l_max": 2, "parity": True, "num_features": 32, "num_bessels": 8,
        "radial_mlp_depth": 1, "radial_mlp_width": 128, "polynomial_cutoff_p": 6,
        "compile_mode": "eager",
    },
}  # fmt: skip
PACKAGES = {"mace": "mace-torch", "nequip": "nequip"}
F32 = torch.float32


class Peer(nn.Module):
    """A model of another library, called as a potential of ours."""

    def __init__(
        self, config: PotentialRunConfig, options: dict[str, Any], data: PotentialData,
        avg_neighbors: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.species = data.split.train.species
        self.kinds = torch.full((max(self.species) + 1,), -1)
        self.kinds[list(self.species)] = torch.arange(len(self.species))
        self.e0 = torch.tensor(reference_energies(data), dtype=torch.float64)
        self.scale = data.train.stacked_forces().square().mean().sqrt().item()
        self.cutoff, self.avg_neighbors = config.cutoff, avg_neighbors
        enter_stream(config.seed, "model")
        self.model = self.build(config, options)

    def build(self, config: PotentialRunConfig, options: dict[str, Any]) -> nn.Module:
        """Call the constructor of the library."""
        raise NotImplementedError

    def evaluate(self, atoms: AtomicBatch, kinds: Tensor) -> tuple[Tensor, Tensor]:
        """Return energies without reference energies, float64, and forces."""
        raise NotImplementedError

    def forward(
        self, atoms: AtomicBatch, forces: bool = True, stress: bool = False
    ) -> PotentialOutput:
        """Return energies and forces; in training mode differentiable by the parameters."""
        kinds = self.kinds[atoms.numbers]
        energy, found = self.evaluate(atoms, kinds)
        references = self.e0[kinds]
        return PotentialOutput(energy + sum_by_system(references, atoms), references, found)

    def errors(self, frames: AtomicFrames) -> FrameErrors:
        """Return predictions for frames beside their labels."""
        return measure_errors(self.eval(), AtomicSource.of_frames(frames, self.cutoff, F32))


class Mace(Peer):
    """``mace.modules.ScaleShiftMACE``, whose usual scale is that of forces, too."""

    def build(self, config: PotentialRunConfig, options: dict[str, Any]) -> nn.Module:
        o3 = require_e3nn()  # before MACE imports it
        modules = import_module("mace.modules")
        named = {key: getattr(modules, options[key]) for key in options if "_cls" in key}
        irreps = {key: o3.Irreps(options[key]) for key in options if key.endswith("_irreps")}
        model: nn.Module = modules.ScaleShiftMACE(
            r_max=config.cutoff,
            num_elements=len(self.species),
            atomic_numbers=list(self.species),
            atomic_energies=self.e0.numpy(),
            avg_num_neighbors=self.avg_neighbors,
            atomic_inter_scale=self.scale,
            atomic_inter_shift=0.0,
            gate=nn.functional.silu,
            **(options | named | irreps),
        )
        return model

    def evaluate(self, atoms: AtomicBatch, kinds: Tensor) -> tuple[Tensor, Tensor]:
        positions = atoms.positions.detach().requires_grad_()
        shifts = positions.new_zeros(atoms.edge_index.shape[1], 3)
        graph = {
            "positions": positions,
            "cell": positions.new_zeros(3 * atoms.num_systems, 3),
            "edge_index": atoms.edge_index,
            "unit_shifts": shifts,
            "shifts": shifts,
            "node_attrs": nn.functional.one_hot(kinds, len(self.species)).to(positions.dtype),
            "batch": atoms.batch,
            "ptr": atoms.ptr,
            "head": torch.zeros(atoms.num_systems, dtype=torch.int64),
        }
        out = self.model(graph, training=self.training)
        # What it calls energy has the reference energies, thousands of eV, in float32.
        return out["interaction_energy"].double(), out["forces"]


class NequIP(Peer):
    """``nequip.model.NequIPGNNModel``."""

    def build(self, config: PotentialRunConfig, options: dict[str, Any]) -> nn.Module:
        import_module("nequip.utils.global_state").set_global_state()
        model: nn.Module = import_module("nequip.model").NequIPGNNModel(
            seed=config.seed,
            model_dtype="float32",
            r_max=config.cutoff,
            type_names=[symbol(z) for z in self.species],
            avg_num_neighbors=self.avg_neighbors,
            per_type_energy_scales=self.scale,
            per_type_energy_shifts=0.0,
            **options,
        )
        return model

    def evaluate(self, atoms: AtomicBatch, kinds: Tensor) -> tuple[Tensor, Tensor]:
        graph = {
            "pos": atoms.positions.detach().double(),
            "edge_index": atoms.edge_index,
            "atom_types": kinds,
            "batch": atoms.batch,
            "num_atoms": atoms.ptr.diff(),
        }
        out = self.model(graph)
        return out["total_energy"].squeeze(-1), out["forces"]


PEERS: dict[str, type[Peer]] = {"mace": Mace, "nequip": NequIP}
