"""Potentials as models of metatomic: their programs, and itself where it is installed."""

import io
import site
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from equigeo._core.tensors import record_program
from equigeo.interop import engines as module
from equigeo.interop import to_metatomic
from equigeo.interop.engines import script_program
from equigeo.ops import kernels_info
from equigeo.potentials import Calculator, MessagePassingPotential, PotentialConfig
from equigeo.potentials.uncertainty import energy_deviations, sums_of_species
from tests.potentials.systems import (
    CELL,
    CRYSTAL,
    CUTOFF,
    MOLECULE,
    NUMBERS,
    POSITIONS,
    SLAB,
    batch_of,
    potential,
)
from tests.potentials.test_uncertainty import fitted
from tests.tier import tier
from tests.wrong_inputs import refused

needs_metatomic = pytest.mark.skipif(
    find_spec("metatomic") is None or find_spec("metatomic_ase") is None,
    reason="metatomic is not installed: make test-metatomic installs it",
)
# It saves TorchScript, which PyTorch discourages.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ase"),
    pytest.mark.filterwarnings("ignore:stress requested but likely to be wrong:UserWarning"),
]
ONE = (NUMBERS[:1], POSITIONS[:1], None, False)
APART = (NUMBERS[:2], 10 * POSITIONS[:2], None, False)
NONE = (NUMBERS[:0], POSITIONS[:0], None, False)
SMALL = {"layers": 1, "lmax_hidden": 0}  # which is recorded in a fraction of the time

# In eV and eV/angstrom, of energies and forces of order one to ten: sums in another order in
# float64, and weights that are rounded to float32, through tens of layers.
SAME, ROUNDED = 1e-12, 1e-4


def program_of(model):
    run = module._energies_and_slopes(model, model.embedding.weight.dtype)
    inputs = module._example(model)
    run(*inputs)
    return recorded_program(run, *inputs)


def run(program, batch, weights=None):
    """Energies of atoms, and the gradient of their weighted sum by positions."""
    weights = torch.ones(len(batch.numbers)).double() if weights is None else weights
    x = batch.positions.clone().requires_grad_()
    vectors = batch.with_positions(x).vectors()
    energies, slopes, *_ = program(batch.numbers, weights, batch.edge_index, vectors.detach())
    (gradient,) = torch.autograd.grad(vectors, x, slopes, allow_unused=True)
    return energies, gradient


MORE = ("full", "gaunt", "curl", "gaunt+curl", "matrix", "vector_signal")


@pytest.mark.parametrize("product", tier(["so2"], ["channelwise", "so2", *MORE]))
def test_programs_are_the_potential_for_any_number_of_atoms_and_edges(product):
    model = potential(product=product)
    program = program_of(model)
    for systems in ([MOLECULE], [CRYSTAL], [MOLECULE, CRYSTAL, SLAB], [ONE], [APART], [NONE]):
        batch = batch_of(*systems)
        want = model(batch)
        energies, gradient = run(program, batch)
        assert_close(energies, want.energies, rtol=0.0, atol=SAME)
        assert_close(gradient, -want.forces, rtol=0.0, atol=SAME)


@pytest.mark.full
def test_weights_are_those_of_the_sum_that_slopes_belong_to():
    model, batch = potential(), batch_of(MOLECULE)
    weights = torch.tensor([1.0, 0, 0, 1, 0, 0]).double()
    _, gradient = run(program_of(model), batch, weights)
    x = batch.positions.clone().requires_grad_()
    want = torch.autograd.grad((weights * model.energies(batch.with_positions(x))).sum(), x)
    assert_close(gradient, want[0], rtol=0.0, atol=SAME)


def test_positions_and_energies_are_float64_for_weights_in_float32():
    model, batch = potential(**SMALL), batch_of(CRYSTAL)
    want = model(batch)
    energies, gradient = run(program_of(model.float()), batch)
    assert energies.dtype == gradient.dtype == torch.float64
    assert_close(energies, want.energies, rtol=0.0, atol=ROUNDED)
    assert_close(gradient, -want.forces, rtol=0.0, atol=ROUNDED)


@pytest.mark.parametrize("options", [SMALL, {}], ids=str)
def test_whitened_features_give_the_uncertainties(options):
    model = potential(**options)
    uncertainty = fitted(model)
    function = module._energies_and_slopes(model, torch.float64, uncertainty)
    function(*module._example(model))
    program = recorded_program(function, *module._example(model))
    batch = batch_of(MOLECULE, CRYSTAL, ONE)
    ones = torch.ones(len(batch.numbers)).double()
    _, _, white, species = program(batch.numbers, ones, batch.edge_index, batch.vectors())
    sums = white.new_zeros(3, 3, white.shape[1]).index_put((batch.batch, species), white, True)
    want, _ = uncertainty(model(batch, features=True), batch)
    found = energy_deviations(uncertainty, sums)
    assert_close(found, want.detach(), rtol=SAME, atol=0.0)


def test_without_metatomic_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "metatomic.torch", None)
    refused("pip install metatomic-torch", to_metatomic, potential(), error=ImportError)


def test_wrong_arguments_raise():
    batch = batch_of((NUMBERS[:2], POSITIONS[:1].expand(2, 3), None, False))
    program = program_of(potential(**SMALL))
    refused("atoms must not coincide", run, program, batch, error=torch.jit.Error)
    refused(
        "must be a MessagePassingPotential, got Linear",
        to_metatomic,
        torch.nn.Linear(1, 1),
        error=TypeError,
    )
    refused(
        r"float32 or float64, got torch\.bfloat16",
        to_metatomic,
        potential().bfloat16(),
        error=TypeError,
    )
    refused("must be in eval mode", to_metatomic, potential().train())


def structures():
    from ase import Atoms

    crystal = Atoms(CRYSTAL[0].numpy(), CRYSTAL[1].numpy(), cell=CELL.numpy(), pbc=True)
    slab = crystal.copy()
    slab.pbc = [True, True, False]
    molecule = Atoms(NUMBERS.numpy(), POSITIONS.numpy())
    boxed = Atoms("H", [(0, 0, 0)], cell=20 * np.eye(3), pbc=True)
    return [crystal, crystal * (3, 2, 1), slab, molecule, Atoms("H", [(0, 0, 0)]), boxed]


def assert_same_results(calculator, model, atol=SAME):
    for atoms in structures():
        other = atoms.copy()
        atoms.calc, other.calc = calculator, Calculator(model)
        for _ in range(3):  # TorchScript writes programs anew when it has seen inputs
            energies = [x.get_potential_energy() for x in (atoms, other)]
            assert energies[0] == pytest.approx(energies[1], rel=0, abs=atol)
            assert np.abs(atoms.get_forces() - other.get_forces()).max() < atol
            if atoms.pbc.all():
                assert np.abs(atoms.get_stress() - other.get_stress()).max() < atol
            for x in (atoms, other):
                x.set_cell(x.cell[:] * 1.01, scale_atoms=True)
                x.positions[0] += 0.05


@needs_metatomic
@pytest.mark.parametrize("saved", [False, True])
def test_its_calculator_gives_what_ours_gives(saved, tmp_path):
    from metatomic_ase import MetatomicCalculator

    model = exported()
    if saved:
        model.save(tmp_path / "model.pt")
        model = tmp_path / "model.pt"
    assert_same_results(MetatomicCalculator(model, check_consistency=True), potential())


@needs_metatomic
def test_weights_in_float32_give_energies_in_float64():
    from metatomic_ase import MetatomicCalculator

    model = to_metatomic(potential().float())
    assert model.capabilities().dtype == "float64"
    assert_same_results(
        MetatomicCalculator(model), potential(), atol=20 * ROUNDED
    )  # stretched crystals of many atoms


@needs_metatomic
def test_it_says_what_it_can_do():
    from metatomic.torch import ModelMetadata

    model = to_metatomic(potential(layers=2), ModelMetadata(name="two layers"))
    found = model.capabilities()
    assert found.atomic_types == [1, 6, 8]
    assert (found.interaction_range, found.length_unit) == (2 * CUTOFF, "angstrom")
    assert found.supported_devices == ["cpu"]
    assert model.metadata().name == "two layers"
    (asked,) = model.requested_neighbor_lists()
    assert (asked.cutoff, asked.full_list, asked.strict) == (CUTOFF, True, True)


@cache
def exported():
    return to_metatomic(potential())


SEARCHES = []  # which own the edges that they give


def given_systems(*systems):
    """Systems with their edges, as engines make them."""
    from metatomic.torch import System
    from metatomic_ase._neighbors import AllNeighborsCalculator

    made = [
        System(
            numbers.to(torch.int32),
            positions.clone().requires_grad_(),
            torch.zeros(3, 3).double() if cell is None else cell,
            torch.as_tensor(pbc).expand(3).clone(),
        )
        for numbers, positions, cell, pbc in systems
    ]
    search = AllNeighborsCalculator(exported().requested_neighbor_lists())
    SEARCHES.append(search)
    return search.compute(made)


@needs_metatomic
def test_uncertainties_are_outputs_of_systems_and_of_atoms():
    from metatensor.torch import Labels
    from metatomic.torch import ModelEvaluationOptions, ModelOutput
    from metatomic_ase import MetatomicCalculator

    model = potential()
    uncertainty = fitted(model)
    exported, batch = to_metatomic(model, uncertainty=uncertainty), batch_of(MOLECULE, CRYSTAL)
    out = model(batch, features=True)
    systems, chosen = given_systems(MOLECULE, CRYSTAL), torch.tensor([[0, 1], [0, 4], [1, 0]])
    rows = torch.tensor([1, 4, 6])
    for kind, selected in (("system", False), ("atom", False), ("atom", True), ("system", True)):
        atoms = Labels(["system", "atom"], chosen.to(torch.int32)) if selected else None
        wanted = {name: ModelOutput(unit="eV", sample_kind=x)
                  for name, x in (("energy", "system"), ("energy_uncertainty", kind))}  # fmt: skip
        options = ModelEvaluationOptions("angstrom", wanted, atoms)
        found = exported(systems, options, check_consistency=True)["energy_uncertainty"].block()
        kept = rows if selected else torch.arange(8)
        group = batch.batch[kept] if kind == "system" else torch.arange(len(kept))
        sums, _ = sums_of_species(
            uncertainty, out.features[kept], batch.numbers[kept], group, int(group.max()) + 1
        )
        assert_close(found.values[:, 0], energy_deviations(uncertainty, sums).detach(), rtol=SAME,
                     atol=0.0)  # fmt: skip
    assert "energy_uncertainty" not in to_metatomic(model).capabilities().outputs
    other = MessagePassingPotential(PotentialConfig((1, 8), channels=2, lmax_edge=1)).eval()
    refused("of the species", to_metatomic, other, uncertainty=uncertainty)
    atoms = structures()[3]
    atoms.calc = MetatomicCalculator(exported, uncertainty_threshold=1e-6)
    with pytest.warns(UserWarning, match="atomic energy uncertainties are larger"):
        atoms.get_potential_energy()


def energy_of(systems, selected=None, kind="system"):
    from metatomic.torch import ModelEvaluationOptions, ModelOutput

    wanted = {"energy": ModelOutput(unit="eV", sample_kind=kind)}
    options = ModelEvaluationOptions("angstrom", wanted, selected)
    found = exported()(systems, options, check_consistency=kind == "system")
    return found["energy"].block().values


@needs_metatomic
def test_systems_are_computed_together_and_each_has_its_gradient():
    systems = given_systems(MOLECULE, ONE, CRYSTAL, APART)
    energy = energy_of(systems)
    want = potential()(batch_of(MOLECULE, ONE, CRYSTAL, APART))
    assert_close(energy[:, 0], want.energy, rtol=0.0, atol=SAME)
    factors = torch.tensor([2.0, 1.0, -3.0, 1.0]).double()
    slopes = torch.autograd.grad((factors * energy[:, 0]).sum(), [s.positions for s in systems])
    forces = want.forces.split([6, 1, 2, 2])
    for slope, factor, force in zip(slopes, factors, forces, strict=True):
        assert_close(slope, -factor * force, rtol=0.0, atol=SAME)


@needs_metatomic
def test_selected_atoms_alone_are_summed_and_differentiated():
    from metatensor.torch import Labels

    chosen = torch.tensor([[0, 1], [0, 4], [1, 0]])
    systems = given_systems(MOLECULE, CRYSTAL)
    energy = energy_of(systems, Labels(["system", "atom"], chosen.to(torch.int32)))
    batch = batch_of(MOLECULE, CRYSTAL)
    x = batch.positions.clone().requires_grad_()
    energies = potential().energies(batch.with_positions(x))
    assert_close(energy[:, 0], torch.stack([energies[[1, 4]].sum(), energies[6]]))
    (want,) = torch.autograd.grad(energies[[1, 4, 6]].sum(), x)
    found = torch.autograd.grad(energy.sum(), [s.positions for s in systems])
    assert_close(torch.cat(found), want, rtol=0.0, atol=SAME)


@needs_metatomic
def test_what_it_cannot_give_is_refused():
    systems = given_systems(MOLECULE)
    refused("energy must be wanted of systems", energy_of, systems, kind="atom")
    energy = energy_of(systems).sum()
    (slope,) = torch.autograd.grad(energy, systems[0].positions, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(slope.square().sum(), systems[0].positions)
    gold = (torch.full_like(NUMBERS, 79), *MOLECULE[1:])
    refused("does not support the atomic type '79'", energy_of, given_systems(gold))


ALONE = """
import sys
sys.modules["equigeo"] = None
from ase.build import molecule
from metatomic_ase import MetatomicCalculator
atoms = molecule("CH3CH2OH")
atoms.calc = MetatomicCalculator(sys.argv[1], extensions_directory=sys.argv[2])
print(repr(float(atoms.get_potential_energy())), *map(float, atoms.get_forces()[0]))
"""


@needs_metatomic
@pytest.mark.skipif(kernels_info()["cpu"] is None, reason="there are no compiled kernels")
def test_where_this_library_is_not_imported_kernels_are_enough(tmp_path, monkeypatch):
    from ase.build import molecule

    # Libraries are collected from installations, which a checkout is not.
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(Path(kernels_info()["cpu"]).parent)])
    model, extensions = str(tmp_path / "model.pt"), str(tmp_path / "extensions")
    exported().save(model, collect_extensions=extensions)
    assert [x.name for x in Path(extensions).iterdir()] == ["_kernels_cpu.so"]
    command = [sys.executable, "-W", "ignore", "-c", ALONE, model, extensions]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    atoms = molecule("CH3CH2OH")
    atoms.calc = Calculator(potential())
    want = [atoms.get_potential_energy(), *atoms.get_forces()[0]]
    # printed digits of float64
    assert [*map(float, done.stdout.split())] == pytest.approx(want, rel=0, abs=1e-10)


def recorded_program(function, *inputs):
    recorded = record_program(function, inputs)
    recorded.graph.eliminate_dead_code()
    return script_program(recorded)


def test_sizes_are_computed_and_not_kept():
    table = torch.arange(10.0)

    def function(x, index):
        rows = x.new_zeros(2 * x.shape[0] + 1, x.shape[1] // 2)
        ordered, order = torch.sort(index, stable=True)
        padded = torch.cat([rows, torch.full((x.shape[0] - 1, x.shape[1] // 2), torch.inf)])
        return padded, table[ordered] * 2 + 1, order, x.reshape(-1), x.sum((0, 1))

    scripted = recorded_program(function, torch.rand(5, 6), torch.tensor([3, 1, 2, 1]))
    for rows, columns, count in ((5, 6, 4), (4, 8, 0), (2, 2, 9)):
        inputs = torch.rand(rows, columns), torch.randint(10, (count,))
        assert_close(scripted(*inputs), function(*inputs), rtol=0.0, atol=0.0)


def test_gradients_that_a_function_takes_and_its_checks_are_in_the_program():
    def function(x):
        torch._assert_async((x > 0).all(), "x must be positive")
        y = x.detach().requires_grad_()
        return torch.autograd.grad(torch.nn.functional.silu(y).sum(), y)

    scripted, x = recorded_program(function, torch.rand(5) + 1), torch.rand(3) + 1
    assert_close(scripted(x), function(x), rtol=0.0, atol=0.0)
    refused("x must be positive", scripted, -x, error=torch.jit.Error)


def test_weights_are_saved_with_it():
    layer = torch.nn.Linear(3, 2).requires_grad_(False)
    scripted, file = recorded_program(lambda x: (layer(x),), torch.rand(5, 3)), io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    x = torch.rand(4, 3)
    assert_close(torch.jit.load(file)(x)[0], layer(x), rtol=0.0, atol=0.0)
    assert len(list(scripted.buffers())) == 2
    assert scripted.double()(x.double())[0].dtype == torch.float64


def test_what_is_no_call_of_an_op_is_refused():
    layer = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.SiLU()))
    refused(r"must call functions, got .*call_module", script_program, layer)

    def function(x):
        return (torch.tanh(x),)

    refused(r"must call ops, got .*tanh", script_program, torch.fx.symbolic_trace(function))
