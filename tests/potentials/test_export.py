"""Programs of energies and forces, for other atoms than they were recorded with, in C++ too."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

from equigeo.nn import radial_table
from equigeo.ops import kernels_info
from equigeo.ops.runtime import package as packages
from equigeo.potentials import compile_package, export_program
from equigeo.potentials.frozen import frozen
from equigeo.testing import tolerance
from tests.potentials.systems import (
    CRYSTAL,
    CUTOFF,
    MOLECULE,
    NUMBERS,
    POSITIONS,
    batch_of,
    potential,
)
from tests.wrong_inputs import refused

LIBRARY = kernels_info()["cpu"]
needs_kernels = pytest.mark.skipif(LIBRARY is None, reason="no compiled kernels")
MORE = ("so2", "full", "gaunt", "curl", "gaunt+curl", "matrix", "vector_signal")
OPTIONS = [
    {},
    *(
        pytest.param(options, marks=pytest.mark.full)
        for options in (
            *({"product": name} for name in MORE), *({"node": name} for name in ("gaunt", "gate")),
            {"zbl": True}, {"charges": (0, 1)},
        )
    ),
]  # fmt: skip
PAIR = (NUMBERS[:2], POSITIONS[:2], None, False)
ALONE = (NUMBERS[:1], POSITIONS[:1], None, False)
NONE = (NUMBERS[:0], POSITIONS[:0], None, False)
CLOSE = (NUMBERS[:2], torch.tensor([[0.0, 0.0, 0.0], [0.02, 0.01, 0.0]]), None, False)

# Virials are sums over all edges, of which the crystal has the most; references of thousands of eV
# are float64 in any case.
SAME = tolerance(torch.float64, 64)
ROUNDED = tolerance(torch.float32, 64) | {"rtol": 0.0}
# Splines are exact to 1e-12, of values of up to 100.
SPLINES = {"rtol": 1e-10, "atol": 1e-10}


def inputs_of(batch):
    cell = torch.zeros(3, 3, dtype=torch.float64) if batch.cell is None else batch.cell[0]
    return batch.numbers, batch.positions, cell, batch.edge_index, batch.shifts


def outputs_of(model, batch):
    """Results of splines, which programs contain as well."""
    return network_outputs_of(frozen(model), batch)


def network_outputs_of(model, batch):
    out = model(batch, stress=True)
    return out.energy[0], out.energies, out.forces, out.virial[0]


@cache
def program_of(**options):
    return export_program(potential(**options)).module()


def test_programs_have_the_inputs_of_their_potential():
    model = potential(charges=(-1, 0), spins=(1, 2))
    program, batch = export_program(model).module(), batch_of(MOLECULE, charge=[-1], spin=[2])
    found = program(*inputs_of(batch), batch.charge[0], batch.spin[0])
    for a, b in zip(found, outputs_of(model, batch), strict=True):
        assert_close(a, b, **SPLINES)
    refused(
        r"charge must be among \[-1, 0\]",
        program, *inputs_of(batch), batch.charge[0] - 1, batch.spin[0], error=RuntimeError,
    )  # fmt: skip


@pytest.fixture
def program():
    return program_of()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_programs_are_right_for_any_number_of_atoms_and_edges(options):
    model, program = potential(**options), program_of(**options)
    for system in (MOLECULE, CRYSTAL, PAIR, CLOSE, ALONE, NONE):
        batch = batch_of(system)
        found = program(*inputs_of(batch))
        assert_close(found, outputs_of(model, batch), **SAME)
        assert_close(found, network_outputs_of(model, batch), **SPLINES)


@needs_kernels
def test_programs_contain_splines_where_these_are_exact(program, monkeypatch):
    def ops(program):
        return {str(node.target) for node in program.graph.nodes}

    assert "equigeo.spline_conv.default" in ops(program)
    monkeypatch.setattr(radial_table, "_PIECES", (4,))
    model, batch = potential(), batch_of(CRYSTAL)
    network = export_program(model).module()
    assert "equigeo.spline_conv.default" not in ops(network)
    assert_close(network(*inputs_of(batch)), network_outputs_of(model, batch), **SAME)


@pytest.mark.full
def test_weights_of_less_precision_take_and_give_float64():
    model, batch = potential(layers=1, lmax_hidden=0).float(), batch_of(MOLECULE)
    found = export_program(model).module()(*inputs_of(batch))
    assert {x.dtype for x in found} == {torch.float64}
    energy, energies, forces, virial = outputs_of(model, batch.to(dtype=torch.float32))
    assert_close(found, (energy, energies, forces.double(), virial), **ROUNDED)


@pytest.mark.full
def test_recording_changes_nothing():
    model = potential(cutoff=3.7)  # tables of no other test
    program = export_program(model).module()
    assert all(p.requires_grad for p in model.parameters())
    batch = batch_of(CRYSTAL, cutoff=3.7)
    want = outputs_of(model, batch)
    model.embedding.weight.data.zero_()
    assert_close(program(*inputs_of(batch)), want, **SAME)


@pytest.mark.full
def test_the_order_of_edges_and_longer_ones_change_nothing(program):
    model, batch = potential(), batch_of(CRYSTAL)
    longer = batch_of(CRYSTAL, cutoff=CUTOFF + 0.5)
    order = torch.randperm(longer.edge_index.shape[1], generator=torch.Generator().manual_seed(0))
    numbers, positions, cell, edge_index, shifts = inputs_of(longer)
    found = program(numbers, positions, cell, edge_index[:, order], shifts[order])
    assert_close(found, outputs_of(model, batch), **SAME)


module = import_module(compile_package.__module__)


def wrong_inputs():
    """Inputs that raise, with the message."""
    numbers, positions, *rest, edges, shifts = inputs_of(batch_of(MOLECULE))
    expected = "atomic numbers must be among [1, 6, 8]"
    for unknown in (
        torch.full_like(numbers, 79),
        -numbers,
        torch.cat([numbers[1:], numbers[:1] + 3]),
    ):
        yield (unknown, positions, *rest, edges, shifts), expected
    expected = "edge_index must be at least 0 and below the number of atoms"
    for outside in (edges + 1, edges - 1, edges * 10**6):
        yield (numbers, positions, *rest, outside, shifts), expected
    yield (numbers[:0], positions[:0], *rest, edges, shifts), expected
    yield (numbers, torch.zeros_like(positions), *rest, edges, shifts), "atoms must not coincide"


def test_a_program_refuses_what_it_cannot_know(program):
    for inputs, message in wrong_inputs():
        refused(re.escape(message), program, *inputs, error=RuntimeError)


def test_what_cannot_be_exported_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    refused(
        "must be a MessagePassingPotential, got Linear",
        export_program, torch.nn.Linear(1, 1), error=TypeError,
    )  # fmt: skip
    refused(r"eval mode.*model\.eval", export_program, potential().train())
    half = potential().half()
    refused(r"float32 or float64, got torch\.float16", export_program, half, error=TypeError)
    package, nowhere = tmp_path / "potential.pt2", tmp_path / "none" / "potential.pt2"
    refused(r"must end in \.pt2, got 'potential\.so'", compile_package, potential(), "potential.so")
    expected = r"the folder of .* must exist"
    refused(expected, compile_package, potential(), nowhere, error=FileNotFoundError)
    monkeypatch.setattr(packages, "loaded_library", lambda device: None)
    expected = "needs the compiled kernels for cpu"
    refused(expected, compile_package, potential(), package, error=RuntimeError)
    assert not [*tmp_path.iterdir()]


EXAMPLE = Path(__file__).parents[2] / "examples" / "aot_potential"
TOOLS = ("g++", "cmake", "make")
needs_tools = pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason="no g++, cmake or make")
# Its box has faces nearer than the cutoff, and the atoms are not wrapped into it.
UNWRAPPED = (
    CRYSTAL[0],
    CRYSTAL[1] + CRYSTAL[2][[0, 1]] * torch.tensor([[2.0], [-1.0]]),
    *CRYSTAL[2:],
)


def build(folder: Path) -> Path:
    prefix = f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"
    configure = ["cmake", "-S", str(EXAMPLE), "-B", str(folder), "-G", "Unix Makefiles", prefix]
    for command in (configure, ["cmake", "--build", str(folder)]):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder / "energy_and_forces"


def as_text(system) -> str:
    numbers, positions, cell, _ = system
    cell = torch.zeros(3, 3) if cell is None else cell
    atoms = [
        f"{z} {a!r} {b!r} {c!r}" for z, (a, b, c) in zip(numbers, positions.tolist(), strict=True)
    ]
    return "\n".join(
        [str(len(atoms)), *(f"{a!r} {b!r} {c!r}" for a, b, c in cell.tolist()), *atoms]
    )


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    package = compile_package(potential(), tmp_path_factory.mktemp("package") / "potential.pt2")
    assert [*package.parent.iterdir()] == [package]
    return package


@pytest.mark.full
@needs_kernels
@needs_tools
@pytest.mark.filterwarnings("ignore")  # inductor's own
def test_a_program_in_cpp_runs_a_package(package, tmp_path):
    model, program = potential(), build(tmp_path / "build")

    def run(system):
        command = [str(program), LIBRARY, str(package)]
        return subprocess.run(
            command, input=as_text(system), capture_output=True, text=True, check=False
        )

    for system in (MOLECULE, CRYSTAL, UNWRAPPED, PAIR, ALONE, NONE):
        ran, (want, _, slopes, _) = run(system), outputs_of(model, batch_of(system))
        assert ran.returncode == 0, ran.stderr
        energy, *forces = ran.stdout.splitlines()
        assert float(energy) == pytest.approx(want.item(), rel=SAME["rtol"])
        rows = [[float(x) for x in line.split()] for line in forces]
        found = torch.tensor(rows, dtype=torch.float64).reshape(-1, 3)
        assert_close(found, slopes, **SAME)
    for system, message in (
        ((torch.full_like(NUMBERS, 79), *MOLECULE[1:]), "atomic numbers must be among [1, 6, 8]"),
        ((PAIR[0], torch.zeros(2, 3), None, False), "atoms must not coincide"),
    ):
        ran = run(system)
        assert (ran.returncode, message in ran.stderr) == (1, True), ran.stderr


RUN_ALL = """
import sys, torch, equigeo.ops
run = torch._inductor.aoti_load_package(sys.argv[1])
for inputs in torch.load(sys.argv[2]):
    try:
        run(*inputs)
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.full
@needs_kernels
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.filterwarnings("ignore")
def test_a_package_refuses_what_its_program_refuses(package, tmp_path):
    inputs, messages = zip(*wrong_inputs(), strict=True)
    torch.save(inputs, tmp_path / "inputs.pt")
    # In a process of its own, which an index out of range would abort.
    command = [sys.executable, "-c", RUN_ALL, str(package), str(tmp_path / "inputs.pt")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.splitlines()) == (0, [*messages]), ran.stderr


@pytest.mark.full
@needs_kernels
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.filterwarnings("ignore")
def test_a_package_of_less_precision_runs_in_python(tmp_path):
    model = potential(layers=1, lmax_hidden=0).float()
    package = compile_package(model, tmp_path / "potential.pt2")
    run = torch._inductor.aoti_load_package(str(package))
    assert run.get_metadata().items() >= {
        ("cutoff", "4.0"),
        ("species", "1 6 8"),
        ("layers", "1"),
        ("dtype", "float32"),
    }
    batch = batch_of(CRYSTAL)
    energy, energies, forces, virial = outputs_of(model, batch.to(dtype=torch.float32))
    found = run(*inputs_of(batch))
    assert_close([*found], [energy, energies, forces.double(), virial], **ROUNDED)


def test_a_link_is_followed_and_other_devices_are_refused(monkeypatch, tmp_path):
    def compile_nothing(program, package_path, inductor_configs):
        Path(package_path).write_text("new")
        return package_path

    monkeypatch.setattr(torch._inductor, "aoti_compile_and_package", compile_nothing)
    monkeypatch.setattr(module, "export_program", lambda model: None)
    monkeypatch.setattr(packages, "loaded_library", lambda device: "there")
    kept, link = tmp_path / "kept.pt2", tmp_path / "link.pt2"
    kept.write_text("old")
    link.symlink_to(kept)
    assert compile_package(potential(), link) == link
    assert (link.is_symlink(), kept.read_text()) == (True, "new")
    monkeypatch.setattr(packages, "loaded_library", lambda device: None)
    expected = "needs the compiled kernels for cpu, which are missing"
    refused(expected, compile_package, potential(), link, error=RuntimeError)


RECORDED = [
    "channelwise",
    *(pytest.param(name, marks=pytest.mark.full) for name in ("gaunt+curl", "so2")),
]


def force_function(model, batch):
    """Energy and forces of tensors; everything that depends on values is made outside."""

    def forces(positions, edge_index, shifts):
        given = replace(batch, edge_index=edge_index, shifts=shifts)
        energy = model.energies(given.with_positions(positions)).sum()
        return energy.detach(), -torch.autograd.grad(energy, positions)[0]

    return forces


def recorded_inputs(batch, positions):
    return positions.clone().requires_grad_(True), batch.edge_index, batch.shifts


@pytest.mark.parametrize("product", RECORDED)
def test_recorded_forces_are_right_for_other_positions(product):
    model, batch = potential(product=product), batch_of(MOLECULE)
    program = make_fx(force_function(model, batch))(*recorded_inputs(batch, batch.positions))
    moved = POSITIONS + 0.01
    moved[0, 0] += 0.05
    energy, forces = program(*recorded_inputs(batch, moved))
    want = model(batch.with_positions(moved))
    # five additions: 4.5 units in the last place
    assert_close(energy, want.energy[0], rtol=1e-15, atol=0.0)
    assert_close(forces, want.forces, **tolerance(torch.float64, 5))


def test_losses_of_forces_are_recorded_with_gradients_of_parameters():
    model, batch = potential().train(), batch_of(MOLECULE)
    parameters = dict(model.named_parameters())

    def step(values, positions):
        def energies(x):
            moved = (batch.with_positions(x),)
            return torch.func.functional_call(_Energy(model), values, moved).sum()

        x = positions.detach().requires_grad_(True)
        (slope,) = torch.autograd.grad(energies(x), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), list(values.values()), allow_unused=True)

    values = {f"model.{name}": p.detach().requires_grad_(True) for name, p in parameters.items()}
    want = step(values, batch.positions)
    found = make_fx(step)(values, batch.positions)(values, batch.positions)
    for a, b in zip(found, want, strict=True):
        assert_close(a, b, **tolerance(torch.float64, 16))


class _Energy(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch):
        return self.model.energies(batch)
