"""Whether a trained potential keeps energy: molecular dynamics without a thermostat.

    python -m bench.potential_dynamics runs/potentials/ethanol-channelwise-contraction-0 \
        --data ../shared/data --set ethanol --output bench/results/potential_dynamics.json

Velocity Verlet with ASE from the first test frame, momenta of 300 K from a seed, without motion of
the whole. The drift is the slope of the least-squares line of the total energy; beside it the
scatter about that line, of which Verlet's own error goes with the square of the step, and the drift
over the whole run in units of the scatter of the kinetic energy. Momenta must stay zero.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.potentials import SETS
from bench.recorder import Record, output_arguments
from equigeo.datasets import load_atomic_split
from equigeo.potentials import Calculator
from equigeo.tasks.potential.task import TrainedPotential


def run(
    model: Any, frame: Any, *, step: float, picoseconds: float, seed: int, temperature: float
) -> dict[str, Any]:
    """Follow one trajectory; drift in meV per atom and picosecond, scatter in meV per atom."""
    from ase import Atoms, units
    from ase.md.velocitydistribution import (
        MaxwellBoltzmannDistribution,
        Stationary,
        ZeroRotation,
    )
    from ase.md.verlet import VelocityVerlet

    atoms = Atoms(frame.numbers.numpy(), frame.positions.numpy())
    MaxwellBoltzmannDistribution(
        atoms, temperature_K=temperature, rng=np.random.default_rng(seed), force_temp=True
    )
    Stationary(atoms)
    ZeroRotation(atoms)
    atoms.calc = Calculator(model)
    dynamics = VelocityVerlet(atoms, step * units.fs)
    times, total, kinetic = [], [], []

    def record() -> None:
        times.append(dynamics.nsteps * step * 1e-3)
        kinetic.append(atoms.get_kinetic_energy())
        total.append(atoms.get_potential_energy() + kinetic[-1])

    dynamics.attach(record)
    start = time.perf_counter()
    dynamics.run(round(picoseconds * 1e3 / step))
    seconds = time.perf_counter() - start
    slope, offset = np.polyfit(times, total, 1)
    scatter = np.std(np.array(total) - slope * np.array(times) - offset)
    return {
        "length (ps)": picoseconds,
        "drift (meV/atom/ps)": float(1e3 * slope / len(atoms)),
        "scatter (meV/atom)": float(1e3 * scatter / len(atoms)),
        "drift over the run / scatter of kinetic energy": float(
            abs(slope * picoseconds) / np.std(kinetic)
        ),
        "mean temperature (K)": float(np.mean(kinetic) / (1.5 * units.kB * len(atoms))),
        "momentum": float(np.abs(atoms.get_momenta().sum(0)).max()),
        "angular momentum": float(np.abs(atoms.get_angular_momentum()).max()),
        "milliseconds per step": 1e3 * seconds / (len(times) - 1),
        "total energy (eV), every hundredth": total[::100],
    }


def main() -> None:
    """Run all steps and types, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of a training run")
    parser.add_argument("--data", type=Path, required=True, help="folder of all data sets")
    parser.add_argument("--set", choices=tuple(SETS), default="ethanol")
    parser.add_argument("--picoseconds", type=float, default=10.0)
    parser.add_argument("--steps", type=float, nargs="+", default=[0.5], help="in fs")
    parser.add_argument("--dtypes", nargs="+", default=["float64", "float32"])
    parser.add_argument("--temperature", type=float, default=300.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    output_arguments(parser, series=True, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    settings = {
        "trained": arguments.run.name, "set": arguments.set, "threads": arguments.threads,
        "picoseconds": arguments.picoseconds, "temperature": arguments.temperature,
    }  # fmt: skip
    record = Record(arguments.output, settings=settings, resume=arguments.resume)
    trained = TrainedPotential.load(arguments.run / "model.ckpt")
    folder, subset, _, _ = SETS[arguments.set]
    tests = load_atomic_split(str(arguments.data / folder), subset).tests
    frame = next(iter(tests.values()))[0]
    for dtype in arguments.dtypes:
        for step in arguments.steps:
            model = trained.model.to(getattr(torch, dtype)).eval()
            make = partial(
                run, model, frame, step=step, picoseconds=arguments.picoseconds,
                seed=arguments.seed, temperature=arguments.temperature,
            )  # fmt: skip
            found = record.keep({"dtype": dtype, "step (fs)": step, "seed": arguments.seed}, make)
            print({k: v for k, v in found.items() if not isinstance(v, list)}, flush=True)


if __name__ == "__main__":
    main()
