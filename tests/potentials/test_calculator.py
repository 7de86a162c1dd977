import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import product as product_of

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from equigeo.potentials import AtomicBatch, Calculator, hessian, hessian_vector_product
from equigeo.potentials import calculator as module
from equigeo.testing import tolerance
from tests.potentials.systems import (
    CELL,
    CRYSTAL,
    MOLECULE,
    MOMENTS,
    NUMBERS,
    POSITIONS,
    batch_of,
    potential,
)
from tests.tier import tier
from tests.wrong_inputs import refused

needs_ase = pytest.mark.skipif(module._ase is None, reason="ASE is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ase")


def molecule(calculator):
    from ase import Atoms

    return Atoms(NUMBERS.numpy(), POSITIONS.numpy(), calculator=calculator)


def crystal(calculator, **changes):
    from ase import Atoms

    settings = {"cell": CELL.numpy(), "pbc": True} | changes
    return Atoms(CRYSTAL[0].numpy(), CRYSTAL[1].numpy(), calculator=calculator, **settings)


@needs_ase
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_are_those_of_the_potential_in_float64(dtype):
    model = potential().to(dtype)
    atoms, out = crystal(Calculator(model)), potential()(batch_of(CRYSTAL), stress=True)
    bound = 1e-10 if dtype == torch.float64 else 1e-3
    assert atoms.get_potential_energy() == pytest.approx(out.energy.item(), abs=bound)
    assert atoms.get_potential_energies() == pytest.approx(out.energies.numpy(), abs=bound)
    assert atoms.calc.results["free_energy"] == atoms.get_potential_energy()
    forces, stress = atoms.get_forces(), atoms.get_stress()
    assert forces == pytest.approx(out.forces.numpy(), abs=bound)
    s = out.stress[0].numpy()
    voigt = [s[0, 0], s[1, 1], s[2, 2], s[1, 2], s[0, 2], s[0, 1]]
    assert stress == pytest.approx(np.array(voigt), abs=bound)
    assert atoms.get_stress(voigt=False) == pytest.approx(s, abs=bound)
    for array in (forces, stress):
        assert array.dtype == np.float64
        assert array.flags.c_contiguous


@needs_ase
def test_charges_and_spins_are_entries_of_the_atoms():
    model = potential(charges=(0, 1), spins=(1, 2))
    atoms = molecule(Calculator(model))
    for info, state in (
        ({}, {}),
        ({"charge": 1, "spin": 2}, {"charge": [1], "spin": [2]}),
        ({"total_charge": 1.0}, {"charge": [1]}),
        ({"charge": 0, "spin": 0}, {}),
    ):
        atoms.info, wanted = info, model(batch_of(MOLECULE, **state)).energy.item()
        assert atoms.get_potential_energy() == pytest.approx(wanted, abs=1e-9)  # of splines
    atoms.info["note"] = "unrelated"
    atoms.get_forces()
    assert atoms.calc.calls == 4
    for wrong in (0.5, 1e30, None):
        atoms.info["charge"] = wrong
        refused("charge must be an integer, got ", atoms.get_forces)
    atoms.info |= {"charge": 1, "total_charge": -1}
    refused("charge and total_charge must be equal", atoms.get_forces)
    atoms.info = {"spin": -3}
    refused("spin must be an integer, got -3", atoms.get_forces)
    given = AtomicBatch.from_ase(molecule(None), model.config.cutoff, charge=[1])
    assert given.charge.tolist() == [1]
    atoms.info = {"charge": -1}
    refused(r"charge must be among \[0, 1\]", atoms.get_forces)
    refused("committee must have equal", Calculator, [model, potential()])
    refused("must be one or several potentials", Calculator, None, error=TypeError)
    atoms.calc = Calculator(potential())
    with pytest.warns(UserWarning, match="energies do not depend on the charge"):
        atoms.get_forces()


@needs_ase
def test_dipoles_need_atoms_without_periodic_axes():
    from ase.calculators.calculator import PropertyNotImplementedError

    model = potential(outputs=MOMENTS)
    atoms, out = molecule(Calculator(model)), model(batch_of(MOLECULE))
    assert atoms.get_dipole_moment() == pytest.approx(out.dipole[0].numpy(), abs=1e-9)  # of splines
    found = atoms.calc.get_property("polarizability")
    assert found == pytest.approx(out.polarizability[0].numpy(), abs=1e-9)  # likewise
    periodic = crystal(atoms.calc)
    periodic.get_forces()
    assert "dipole" not in periodic.calc.results
    with pytest.raises(PropertyNotImplementedError, match="a dipole needs pbc=False"):
        periodic.get_dipole_moment()
    with pytest.raises(PropertyNotImplementedError):
        molecule(Calculator(potential())).get_dipole_moment()
    committee = molecule(Calculator([model, potential(seed=1, outputs=MOMENTS)]))
    mean = (out.dipole + potential(seed=1, outputs=MOMENTS)(batch_of(MOLECULE)).dipole)[0] / 2
    assert committee.get_dipole_moment() == pytest.approx(mean.numpy(), abs=1e-9)  # likewise
    refused("equal species, cutoff, outputs", Calculator, [model, potential()])


@needs_ase
def test_everything_is_computed_once():
    calculator = Calculator(potential())
    atoms = crystal(calculator)
    for _ in range(2):
        atoms.get_potential_energy(), atoms.get_forces(), atoms.get_stress()
    assert calculator.calls == 1
    atoms.positions[0, 0] += 1e-12
    atoms.get_forces()
    assert calculator.calls == 2
    atoms.set_initial_magnetic_moments([1.0, 0.0])
    atoms.set_initial_charges([0.5, 0.0])
    atoms.get_potential_energy()
    assert calculator.calls == 2
    atoms.set_cell(atoms.cell[:] * 1.01)
    atoms.get_potential_energy()
    assert calculator.calls == 3


@needs_ase
@pytest.mark.parametrize("pbc", [False, [True, True, False]])
def test_stress_is_never_that_of_an_invented_volume(pbc):
    from ase.calculators.calculator import PropertyNotImplementedError

    atoms = crystal(Calculator(potential()), pbc=pbc)
    assert np.isfinite(atoms.get_forces()).all()
    refused("three periodic axes", atoms.get_stress, error=PropertyNotImplementedError)


@needs_ase
def test_threads_around_one_potential_agree_with_one_after_another():
    model = potential()
    generator = np.random.default_rng(0)
    frames = POSITIONS.numpy() + 0.05 * generator.standard_normal((24, 6, 3))

    def forces(some):
        atoms = molecule(Calculator(model))
        found = []
        for positions in some:
            atoms.positions = positions
            found.append(atoms.get_forces())
        return np.stack(found)

    serial = forces(frames)
    with ThreadPoolExecutor(4) as pool:
        parallel = np.concatenate([*pool.map(forces, np.split(frames, 4))])
    assert np.array_equal(parallel, serial)


def trajectory(atoms, steps=30, size=0.03):
    """Positions and cells as dynamics at constant pressure have them."""
    generator = np.random.default_rng(0)
    for _ in range(steps):
        atoms.positions += size * generator.standard_normal((len(atoms), 3))
        change = np.eye(3) + 0.005 * generator.standard_normal((3, 3))
        atoms.set_cell(atoms.cell[:] @ change, scale_atoms=True)
        yield atoms


SKINS = [
    (torch.float64, True),
    (torch.float32, [True, True, False]),
    (torch.float32, True),
    *((dtype, False) for dtype in (torch.float32, torch.float64)),
    (torch.float64, [True, True, False]),
]


@needs_ase
@pytest.mark.parametrize(("dtype", "pbc"), tier(SKINS[:1], SKINS))
def test_a_skin_changes_nothing_but_how_often_edges_are_searched(dtype, pbc):
    model = potential().to(dtype)
    kept, always = Calculator(model, skin=0.5), Calculator(model, skin=0)
    names = ["energies", "forces", *(["stress"] if pbc is True else [])]
    edges = set()
    for k, atoms in enumerate(trajectory(crystal(None, pbc=pbc) * (2, 2, 2))):
        for calculator in (kept, always):
            calculator.calculate(atoms, names)
        for name in names:
            assert np.array_equal(kept.results[name], always.results[name])
        edges.add(kept.batch(atoms).edge_index.shape[1])
        assert always.rebuilds == always.calls == k + 1
    assert len(edges) > 2  # it does matter which they are
    assert 2 < kept.rebuilds < 15


@needs_ase
def test_elements_and_wrapped_atoms_are_those_of_now():
    model = potential()
    kept, always = Calculator(model), Calculator(model, skin=0)
    atoms = crystal(None)
    kept.calculate(atoms)
    atoms.numbers[:] = atoms.numbers[::-1].copy()
    kept.calculate(atoms), always.calculate(atoms)
    assert kept.results["energy"] == always.results["energy"]
    assert kept.rebuilds == 1  # edges do not depend on elements
    atoms.positions[1] += atoms.cell[0]
    kept.calculate(atoms)
    assert kept.rebuilds == 2
    # an atom moved by a lattice vector: sums in another order in float64
    assert kept.results["energy"] == pytest.approx(always.results["energy"], abs=1e-10)


@needs_ase
def test_hessians_are_those_of_vibrations():
    atoms = molecule(Calculator(potential()))
    want = hessian(potential(), batch_of(MOLECULE)).numpy()
    assert atoms.calc.get_hessian(atoms) == pytest.approx(want)
    h, row = 1e-4, []
    for sign in (1, -1):
        atoms.positions = POSITIONS.numpy()
        atoms.positions[2, 1] += sign * h
        row.append(-atoms.get_forces().ravel() / (2 * h))
    # central differences: h^2 / 6 = 1.7e-9 of a fourth derivative of about 80
    assert row[0] - row[1] == pytest.approx(want[7], abs=2.5e-7)


@needs_ase
def test_optimizers_of_cells_go_down():
    from ase.filters import FrechetCellFilter
    from ase.optimize import BFGS

    atoms = crystal(Calculator(potential()))
    before = atoms.get_potential_energy()
    with BFGS(FrechetCellFilter(atoms), logfile=None) as optimizer:
        optimizer.run(fmax=0.01, steps=15)
    assert atoms.get_potential_energy() < before  # uphill with the wrong sign of the stress


@needs_ase
def test_atoms_that_are_not_wrapped_lose_nothing_in_float32():
    model = potential().float()
    atoms = crystal(Calculator(model)) * (2, 2, 2)
    atoms.calc = Calculator(model)
    forces = atoms.get_forces()
    far = atoms.copy()
    cells = np.random.default_rng(0).integers(-1000, 1001, (len(atoms), 3))
    far.positions += cells @ far.cell.array
    far.calc = Calculator(model)
    # vectors differ by units of 1e4 in float64, which may be one of float32 after the cast
    bound = tolerance(torch.float32, 64)["atol"] * np.abs(forces).max()
    assert np.abs(far.get_forces() - forces).max() < bound
    assert np.abs(
        model(far.calc.batch(far).to(dtype=torch.float32)).forces.numpy() - forces
    ).max() > (10 * bound)


@needs_ase
def test_atoms_that_share_a_calculator_have_lists_of_their_own(monkeypatch):
    calculator, images = Calculator(potential()), []
    for k in range(4):
        atoms = crystal(calculator)
        atoms.rattle(0.3, seed=k)
        images.append(atoms)
    for step in range(3):
        for atoms in images:
            atoms.rattle(0.001, seed=step)
            atoms.get_forces()
    assert (calculator.calls, calculator.rebuilds) == (12, 4)
    again = pickle.loads(pickle.dumps(calculator))
    assert again.rebuilds == 4
    for _ in range(3):  # one list for objects that follow each other
        images[0] = atoms = images[0].copy()
        atoms.positions += 0.001
        again.calculate(atoms)
    assert again.rebuilds == 5
    monkeypatch.setattr(module, "_MOST_LISTS", 2)
    few = Calculator(potential())
    for atoms in images:
        few.calculate(atoms)
        assert len(few._lists) <= 2


@needs_ase
def test_cells_of_slabs_are_relaxed_with_the_volume_of_the_cell():
    from ase.calculators.calculator import PropertyNotImplementedError
    from ase.filters import FrechetCellFilter

    def forces(pbc, **options):
        cell = CELL.numpy() + np.diag([0, 0, 20.0])
        atoms = crystal(Calculator(potential(), **options), cell=cell, pbc=pbc)
        return FrechetCellFilter(atoms, mask=[1, 1, 0, 0, 0, 1]).get_forces()

    slab, full = forces([True, True, False], cell_stress=True), forces(True)
    assert np.abs(full[-3:]).max() > 0.1
    # across a vacuum beyond the cutoff there are no edges: the same sums
    assert slab == pytest.approx(full, rel=tolerance(torch.float64, 64)["rtol"])
    with pytest.raises(PropertyNotImplementedError, match=r"Calculator\(..., cell_stress=True\)"):
        forces([True, True, False])
    with pytest.raises(PropertyNotImplementedError, match="must have three vectors"):
        molecule(Calculator(potential(), cell_stress=True)).get_stress()


def test_without_ase_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module, "_ase", None)
    refused(r"pip install 'ase>=3\.23'", Calculator, potential(), error=ImportError)


@needs_ase
def test_atoms_and_weights_that_a_calculator_does_not_take_are_one_error():
    atoms = crystal(Calculator(potential()), cell=np.zeros((3, 3)))
    atoms.numbers[0] = 79  # named before any list is built
    refused(r"among \[1, 6, 8\].*got \[79\]", atoms.get_potential_energy)
    atoms = crystal(Calculator(potential()), cell=[[1, 0, 0], [2, 0, 0], [0, 0, 1]])
    refused("cell", atoms.get_potential_energy)
    atoms = molecule(Calculator(potential()))
    atoms.positions[1] = np.nan
    refused("positions of system 0 must be finite", atoms.get_potential_energy)
    for dtype in (torch.bfloat16, torch.float16):
        atoms = molecule(Calculator(potential().to(dtype)))
        expected = r"weights must be float32 or float64.*model\.float"
        refused(expected, atoms.get_potential_energy, error=TypeError)
    refused(r"call get_hessian\(atoms\)", Calculator(potential()).get_hessian)


@needs_ase
def test_atoms_and_potential_are_not_changed_and_copies_work():
    model = potential().train()
    calculator, before = Calculator(model), crystal(None)
    atoms = crystal(calculator)
    forces = atoms.get_forces()
    assert atoms == atoms.copy() == before
    assert model.training
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    for other in (copy.deepcopy(calculator), pickle.loads(pickle.dumps(calculator))):
        assert crystal(other).get_potential_energy() == atoms.get_potential_energy()
    with torch.device("meta"):  # whatever the default device is
        assert np.array_equal(crystal(Calculator(model)).get_forces(), forces)


PRODUCTS = ("channelwise", "full", "gaunt", "curl", "gaunt+curl", "matrix", "vector_signal", "so2")
SMALL = {"rtol": 0.0, "atol": 1e-10}  # eV/angstrom^2, specification 2.4


SYSTEMS = {"molecule": MOLECULE, "crystal": CRYSTAL}
CASES = [("molecule", "channelwise"), *(("crystal", product) for product in PRODUCTS)]


@pytest.mark.parametrize(("system", "product"), tier(CASES, [*product_of(SYSTEMS, PRODUCTS)]))
def test_hessians_are_symmetric_derivatives_of_forces(system, product):
    model, batch = potential(product=product), batch_of(SYSTEMS[system])
    matrix = hessian(model, batch)
    assert_close(matrix, matrix.T, **SMALL)
    assert_close(matrix.unflatten(1, (-1, 3)).sum(1), torch.zeros(len(matrix), 3).double(), **SMALL)
    step = torch.zeros_like(batch.positions)
    step[1, 2] = 1e-5
    high, low = (model(batch.with_positions(batch.positions + s * step)).forces for s in (1, -1))
    # Central differences: step^2 / 6 = 1.7e-11 of a fourth derivative of some hundreds at most, and
    # rounding of forces of order one, 1e-15, over the step.
    assert_close(matrix[5], ((low - high) / 2e-5).flatten(), rtol=0.0, atol=1e-8)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # by PyTorch itself
@pytest.mark.parametrize("product", tier(["channelwise", "gaunt+curl", "so2"], PRODUCTS))
def test_torch_func_gives_the_same_hessian(product):
    model, batch = potential(product=product), batch_of(MOLECULE)

    def energy(positions):
        return model.energies(batch.with_positions(positions)).sum()

    want = hessian(model, batch)
    by_reverse = torch.func.jacrev(torch.func.grad(energy))(batch.positions)
    assert_close(by_reverse.reshape(want.shape), want, **SMALL)
    by_forward = torch.func.hessian(energy)(batch.positions)
    assert_close(by_forward.reshape(want.shape), want, **SMALL)


def test_products_with_displacements_are_those_with_the_matrix_of_each_system():
    model, batch = potential(), batch_of(MOLECULE)
    vectors = torch.randn(2, 6, 3, dtype=torch.float64)
    want = (hessian(model, batch) @ vectors.flatten(1).T).T.reshape(vectors.shape)
    assert_close(hessian_vector_product(model, batch, vectors), want)
    assert_close(hessian_vector_product(model, batch, vectors[0]), want[0])
    other = torch.randn(2, 3, dtype=torch.float64)
    found = hessian_vector_product(
        model, batch_of(MOLECULE, CRYSTAL), torch.cat([vectors[0], other])
    )
    alone = hessian_vector_product(model, batch_of(CRYSTAL), other)
    assert_close(found, torch.cat([want[0], alone]))


def test_chunks_and_contexts_change_no_hessian_and_an_atom_alone_has_no_curvature():
    model = potential().train()
    want = hessian(model, batch_of(MOLECULE))
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            assert_close(hessian(model, batch_of(MOLECULE), chunk_size=5), want)
    one, none = (batch_of((NUMBERS[:n], POSITIONS[:n], None, False)) for n in (1, 0))
    assert not hessian(model, one).any()
    assert hessian(model, none).shape == (0, 0)


def test_wrong_arguments_are_refused():
    model, batch = potential(), batch_of(MOLECULE)
    refused("one system, got 2", hessian, model, batch_of(MOLECULE, CRYSTAL))
    refused("chunk_size must be positive", hessian, model, batch, chunk_size=0)
    refused("vectors must be", hessian_vector_product, model, batch, torch.zeros(5, 3))
