"""Errors of MACE and NequIP after given minutes: the frames, the clock and the recipe of ours.

Each peer runs in an environment of its own, those of ``make test-interop``, never accelerated::

    .venv-mace/bin/python -m bench.potential_peers --data ../shared/data --set ethanol \
        --peer mace --minutes 15 --threads 1 --output bench/results/potential_peers.json

As in ``bench.potentials`` are: frames, and their edges, listed once; batches and their order; loss,
optimizer, rates, clipping and average of the weights; reference energies, the scale and the number
of neighbors. Model class, sizes and options are the peer's own (``OPTIONS``). TorchScript compiles
in the first steps: those are taken without moving a weight, before the clock starts. Nothing is
selected on test frames. Models are in float32; energies of single atoms are added in float64.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bench.potentials import SETS, configure, identity
from bench.recorder import Record, parsed
from equigeo.datasets import AtomicFrames
from equigeo.datasets.atoms.frames import symbol
from equigeo.interop.optional import require_e3nn
from equigeo.potentials import AtomicBatch
from equigeo.potentials.batch import PotentialOutput, sum_by_system
from equigeo.tasks.potential import (
    AtomicSource,
    EnergyForcesStress,
    FrameErrors,
    PotentialData,
    PotentialRunConfig,
    evaluate_potential,
    load_frames,
    measure_errors,
)
from equigeo.tasks.potential.start import reference_energies
from equigeo.training.config import build_optimizer
from equigeo.training.data import EpochBatches
from equigeo.training.loop.module import WeightAverage
from equigeo.training.process import enter_stream

# Molecules: cells are not handed over.
MOLECULES = tuple(name for name, (folder, *_) in SETS.items() if folder != "mlearn_periodic")
OURS = ("product", "node", "correlation", "channels", "layers", "lmax_edge", "lmax_hidden")
WARM_UP = 5  # steps
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


def train(peer: Peer, source: AtomicSource, config: PotentialRunConfig) -> dict[str, Any]:
    """Train for the minutes of the recipe, and leave the average of the weights in the model."""
    recipe, objective = config.recipe, EnergyForcesStress.of(config)
    weights = nn.ParameterList(peer.train().parameters())  # buffers are constants
    per_epoch = EpochBatches.count(len(source), recipe.batch_size)
    began = time.perf_counter()
    for step in range(WARM_UP):
        batch = EpochBatches(source, recipe.batch_size, seed=config.seed, epoch=0)[step]
        objective.sums(peer, batch.parts[0])[0].backward()
    start = time.perf_counter()

    def elapsed() -> float:
        return time.perf_counter() - start

    optimizer, schedule = build_optimizer(weights, recipe, per_epoch, elapsed)
    average, steps = WeightAverage(recipe.ema_decay), 0
    history: list[dict[str, float]] = []
    while not recipe.is_done(len(history), elapsed()):
        batches = EpochBatches(source, recipe.batch_size, seed=config.seed, epoch=len(history))
        tally, before = torch.zeros(3, dtype=torch.float64), elapsed()
        for k in range(per_epoch):
            [part] = batches[k].parts
            optimizer.zero_grad()
            loss, measure = objective.sums(peer, part)
            (loss / part.total).backward()
            nn.utils.clip_grad_norm_(weights, recipe.clip_norm)
            optimizer.step()
            if schedule is not None:
                schedule.step()
            average.update(weights)
            tally += torch.stack([loss.detach().double(), measure, torch.tensor(part.total)])
            steps += 1
            if recipe.is_done(0, elapsed()):
                break
        mean_loss, mean_error = (tally[:2] / tally[2]).tolist()
        if not math.isfinite(mean_loss):
            raise SystemExit(f"the loss of epoch {len(history) + 1} is {mean_loss}")
        line = {"epoch": len(history) + 1, "loss": mean_loss, "train_error": mean_error}
        history.append(line | {"seconds": elapsed() - before})
    seconds = elapsed()
    weights.load_state_dict(average.state)
    return {
        "milliseconds per step": 1e3 * seconds / steps,
        "steps": steps,
        "epochs": len(history),
        "seconds": seconds,
        "seconds of warm-up": start - began,
        "history": history,
    }


def one_run(name: str, options: dict[str, Any], config: PotentialRunConfig) -> dict[str, Any]:
    """Train once, and evaluate on every test set."""
    data = load_frames(config)
    source = AtomicSource.of_frames(data.train, config.cutoff, F32)
    peer = PEERS[name](config, options, data, source.avg_neighbors)
    untrained = peer.errors(data.validation).summary()
    trained = train(peer, source, config)
    evaluation = evaluate_potential(peer, data)  # type: ignore[arg-type]  # asks for errors alone
    return {
        "errors": evaluation.sets,
        "errors by species": evaluation.species,
        "validation errors before training": untrained,
        "remark": evaluation.remark,
        "training frames": len(data.train),
        "parameters": sum(p.numel() for p in peer.parameters()),
        "average neighbors": peer.avg_neighbors,
        "scale (eV/A)": peer.scale,
        **trained,
    }


def main() -> None:
    """Run what is missing, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of all data sets")
    parser.add_argument("--set", choices=MOLECULES, required=True)
    parser.add_argument("--peer", choices=tuple(PEERS), required=True)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parsed(parser, series=True, required=True, threads=2)
    warnings.filterwarnings("ignore")  # theirs
    recipe, settings = {"minutes": arguments.minutes}, {"seed": arguments.seed, "evaluate_every": 0}
    config = configure(arguments.data, arguments.set, recipe, **settings)
    options = OPTIONS[arguments.peer]
    same = identity(config, arguments.threads) | {"peer": arguments.peer, "options": options}
    same["train"] = {key: value for key, value in same["train"].items() if key not in OURS}
    record = Record(arguments.output, resume=arguments.resume)
    package = PACKAGES[arguments.peer]
    make = partial(one_run, arguments.peer, options, config)
    run = record.keep(same, make, **{package: version(package)})
    for name, row in run["errors"].items():
        print(arguments.set, arguments.peer, name, row)


if __name__ == "__main__":
    main()
