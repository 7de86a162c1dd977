"""``accelerate`` on MACE's own models, in an environment that has it: ``make test-interop``."""

import copy
import pickle
from collections import Counter
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random

import pytest
import torch

from equigeo.interop import accelerate, restore
from equigeo.interop.accelerated import Accelerated
from tests.interop.e3nn_modules import random
from tests.interop.interatomic import (
    Atoms,
    default_dtype,
    evaluate_mace,
    mace,
    mace_data,
    mace_energy,
    mace_hessian,
    mace_hessian_of_copies,
    mace_hessian_product,
)
from tests.interop.law import CURVATURE, SAME, assert_same_training, difference
from tests.tier import tier

pytest.importorskip("mace", reason="needs MACE: make test-interop")
pytestmark = pytest.mark.filterwarnings("ignore")  # what MACE and its dependencies warn of

SMALL = {"hidden_irreps": "4x0e+4x1o", "radial_MLP": [8]}
MODELS = {
    "as in the figure": {},
    "basis of MACE": {"use_reduced_cg": False},
    "no skip": {"block": "RealAgnosticInteractionBlock"},
    "density": {"block": "RealAgnosticDensityResidualInteractionBlock"},
    "nonlinear": {"block": "RealAgnosticResidualNonLinearInteractionBlock"},
    "degree 2, three layers": {"max_ell": 2, "num_interactions": 3, "correlation": 2},
    "both parities": {"hidden_irreps": "4x0e+4x0o+4x1o+4x1e", "max_ell": 2, "correlation": 2},
}


@pytest.fixture(scope="module")
def crystal():
    return Atoms.copper(3, torch.float64)


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS.keys())
def test_energies_and_forces_are_the_same(options, crystal):
    # Built twice from one seed: a model with paths that vanish cannot be copied.
    theirs, ours = (mace(torch.float64, **{**SMALL, **options}) for _ in range(2))
    report = accelerate(ours)
    assert not report.kept
    layers = options.get("num_interactions", 2)
    replaced = Counter(note.note for note in report.replaced)
    assert replaced["equigeo.ops.products.channelwise_conv"] == layers
    assert replaced["equigeo.tensor_products.SymmetricContraction"] == layers
    assert difference(ours, theirs, crystal, evaluate_mace) < SAME


def test_training_is_the_same(crystal):
    theirs = mace(torch.float64, **SMALL).train()
    ours = copy.deepcopy(theirs)
    accelerate(ours)
    assert_same_training(ours, theirs, crystal, evaluate_mace)


def test_states_load_strictly_both_ways(crystal):
    theirs, ours = mace(torch.float64, **SMALL), mace(torch.float64, **SMALL)
    accelerate(ours)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(1.5)
    other = copy.deepcopy(theirs)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    other.load_state_dict(ours.state_dict(), strict=True)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for module in (ours, other):
        assert difference(module, theirs, crystal, evaluate_mace) < SAME


def test_a_restored_model_is_what_it_was_and_is_scripted_as_before(crystal):
    from e3nn.util import jit

    theirs, ours = mace(torch.float64, **SMALL), mace(torch.float64, **SMALL)
    kinds = [type(part) for part in ours.modules()]  # graphs of torch.fx have one class each
    report = accelerate(ours)
    assert sorted(restore(ours)) == sorted(note.path for note in report.replaced)
    assert [type(part) for part in ours.modules()] == kinds
    state = ours.state_dict()
    assert list(state) == list(theirs.state_dict())
    assert all(value.equal(state[key]) for key, value in theirs.state_dict().items())
    assert difference(jit.compile(ours), theirs, crystal, evaluate_mace) < SAME


def lammps_class():
    """What ``mace_create_lammps_model`` scripts; its package imports much that is not needed."""
    import mace

    path = Path(mace.__file__).parent / "calculators" / "lammps_mace.py"
    spec = spec_from_file_location("lammps_mace", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LAMMPS_MACE


def test_lammps_takes_a_restored_model(accelerated, molecule, tmp_path):
    from e3nn.util import jit

    LAMMPS_MACE = lammps_class()
    model = copy.deepcopy(accelerated)
    with pytest.raises(RuntimeError, match=r"call equigeo\.interop\.restore\(model\) first"):
        jit.compile(LAMMPS_MACE(copy.deepcopy(model)))
    restore(model)
    path = str(tmp_path / "model-lammps.pt")
    jit.compile(LAMMPS_MACE(model)).save(path)
    data = mace_data(accelerated, molecule, molecule.positions.clone().requires_grad_())
    del data["head"]
    local = torch.ones(len(molecule.kinds), dtype=torch.float64)
    found = torch.jit.load(path)(data, local)
    energy, forces = evaluate_mace(accelerated, molecule)
    torch.testing.assert_close(found["total_energy_local"].squeeze(), energy)
    torch.testing.assert_close(found["forces"], forces)


def test_every_module_passes_verification(crystal):
    report = accelerate(mace(torch.float64, **SMALL), verify=True)
    assert not report.kept
    assert report.certificate.passes


# --- Derivatives of every kind --------------------------------------------------------------------


@pytest.fixture(scope="module")
def molecule():
    return Atoms.ethanol(1, torch.float64)


@pytest.fixture(scope="module")
def accelerated():
    model = mace(torch.float64, elements="CHO", **SMALL)
    assert not accelerate(model).kept
    return model


@pytest.fixture(scope="module")
def curvature(molecule):
    """The Hessian, by MACE itself."""
    return mace_hessian(mace(torch.float64, elements="CHO", **SMALL), molecule)


def close(got, want):
    scale = float(want.detach().abs().max())
    torch.testing.assert_close(got / scale, want / scale, rtol=CURVATURE, atol=CURVATURE)


def test_derivatives_under_torch_func_are_the_same(accelerated, molecule, curvature, monkeypatch):
    # MACE asks positions for a gradient, which torch.func refuses: under it they have one.
    ask = torch.Tensor.requires_grad_
    monkeypatch.setattr(torch.Tensor, "requires_grad_", lambda x, *yes: x if yes else ask(x))
    energy, positions = partial(mace_energy, accelerated, molecule), molecule.positions
    direction = random(*positions.shape)
    slope = torch.func.grad(energy)(positions)
    _, along = torch.func.jvp(energy, (positions,), (direction,))
    close(along, (slope * direction).sum())
    same, found = torch.func.jvp(torch.func.grad(energy), (positions,), (direction,))
    close(same, slope)
    close(found, torch.einsum("iajb,jb->ia", curvature, direction))
    close(torch.func.jacrev(torch.func.grad(energy))(positions), curvature)


def test_forces_carry_the_product_with_the_hessian(accelerated, molecule, curvature):
    direction = random(*molecule.positions.shape)
    found = mace_hessian_product(accelerated, molecule, direction)
    close(found, torch.einsum("iajb,jb->ia", curvature, direction))


def test_one_evaluation_of_copies_gives_the_hessian(accelerated, molecule, curvature):
    close(mace_hessian_of_copies(accelerated, molecule), curvature)
    close(mace_hessian(accelerated, molecule), curvature)


# --- Copies, files and adapters -------------------------------------------------------------------


def kinds_of(model):
    return Counter(type(part) for part in model.modules() if isinstance(part, Accelerated))


def test_copies_and_files_stay_accelerated(accelerated, molecule, tmp_path):
    want = evaluate_mace(accelerated, molecule)
    path = tmp_path / "model.pt"
    torch.save(accelerated, path)
    copies = (
        copy.deepcopy(accelerated),
        pickle.loads(pickle.dumps(accelerated)),
        torch.load(path, weights_only=False),
    )
    for other in copies:
        assert kinds_of(other) == kinds_of(accelerated)
        for got, expected in zip(evaluate_mace(other, molecule), want, strict=True):
            assert got.equal(expected)
        assert len(restore(other)) > 10
        assert difference(other, accelerated, molecule, evaluate_mace) < SAME


def test_packages_hold_accelerated_models(accelerated, molecule, tmp_path):
    path = tmp_path / "model.pt"
    with torch.package.PackageExporter(path) as exporter:
        for library in ("equigeo", "e3nn", "mace", "torch", "numpy", "opt_einsum_fx"):
            exporter.extern(f"{library}.**")
        exporter.extern(["io", "sys"])
        exporter.save_pickle("model", "model.pkl", accelerated)
    other = torch.package.PackageImporter(path).load_pickle("model", "model.pkl")
    for got, want in zip(
        evaluate_mace(other, molecule), evaluate_mace(accelerated, molecule), strict=True
    ):
        assert got.equal(want)
    assert restore(other)


def test_low_rank_adapters_of_mace_go_into_accelerated_models(accelerated, molecule):
    from mace.modules.lora import inject_lora

    ours, theirs = copy.deepcopy(accelerated), copy.deepcopy(accelerated)
    restore(theirs)
    for model in (ours, theirs):
        with default_dtype(torch.float64), torch.random.fork_rng():
            torch.manual_seed(3)
            inject_lora(model, rank=2, alpha=1.0)
            for name, parameter in sorted(model.named_parameters()):
                if "lora" in name:
                    torch.nn.init.normal_(parameter)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert difference(ours, theirs, molecule, evaluate_mace) < SAME
    assert difference(ours, accelerated, molecule, evaluate_mace) > 1e-6


# --- Random architectures -------------------------------------------------------------------------


def random_options(draw):
    """Options of a model that takes a second or two."""
    mul, most = draw.randint(1, 5), draw.randint(0, 2)
    parities = draw.choice(["natural", "both"])
    degrees = [(l, p) for l in range(most + 1) for p in (1, -1)]
    kept = [(l, p) for l, p in degrees if parities == "both" or p == (-1) ** l]
    return {
        "hidden_irreps": "+".join(f"{mul}x{l}{'e' if p == 1 else 'o'}" for l, p in kept),
        "block": draw.choice(
            [options["block"] for options in MODELS.values() if "block" in options]
        ),
        "max_ell": draw.randint(max(1, most), 3),
        "correlation": draw.randint(1, 3),
        "num_interactions": draw.randint(2, 3),
        "radial_MLP": [draw.randint(3, 16) for _ in range(draw.randint(1, 3))],
        "use_reduced_cg": draw.random() < 0.5,
    }


@pytest.mark.parametrize("seed", range(tier(4, 40)))
def test_random_models_compute_the_same(seed, molecule):
    options = random_options(Random(seed))
    theirs, ours = (mace(torch.float64, elements="CHO", **options) for _ in range(2))
    assert not accelerate(ours).kept
    assert difference(ours, theirs, molecule, partial(evaluate_mace, stress=True)) < SAME
