"""``accelerate`` on NequIP's own models, in an environment that has it: ``make test-interop``."""

import copy
import pickle
from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random

import pytest
import torch
from torch.autograd import forward_ad

from equigeo.interop import accelerate, restore
from equigeo.interop.accelerated import Accelerated
from tests.interop.e3nn_modules import random
from tests.interop.interatomic import Atoms, evaluate_nequip, nequip, nequip_frames
from tests.interop.law import CURVATURE, SAME, assert_same_training, difference
from tests.tier import tier

pytest.importorskip("nequip", reason="needs NequIP: make test-interop")
pytestmark = pytest.mark.filterwarnings("ignore")  # what NequIP and its dependencies warn of

SMALL = {"num_features": 8, "num_layers": 2, "radial_mlp_width": 16}
MODELS = {
    "as in the figure": {},
    "one parity": {"parity": False},
    "degree 3": {"l_max": 3},
    "degree 1, mixed widths": {"l_max": 1, "num_features": [6, 3]},
}


@pytest.fixture(scope="module")
def crystal():
    return Atoms.copper(3, torch.float64)


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS.keys())
def test_energies_and_forces_are_the_same(options, crystal):
    theirs = nequip(torch.float64, **{**SMALL, **options})
    ours = copy.deepcopy(theirs)
    report = accelerate(ours)
    assert not report.kept
    convolutions = [note for note in report.replaced if note.kind == "TensorProductScatter"]
    assert len(convolutions) == 2
    assert difference(ours, theirs, crystal, evaluate_nequip) < SAME


def test_training_is_the_same(crystal):
    theirs = nequip(torch.float64, **SMALL).train()
    ours = copy.deepcopy(theirs)
    accelerate(ours)
    assert_same_training(ours, theirs, crystal, evaluate_nequip)


def test_a_model_that_nequip_traces_and_compiles_holds_for_other_graphs(crystal, monkeypatch):
    quick = partial(torch.compile, backend="aot_eager")
    monkeypatch.setattr(torch, "compile", quick)
    smaller = {**SMALL, "l_max": 1, "num_features": 4}
    eager = nequip(torch.float64, **smaller).train()
    ours = nequip(torch.float64, **smaller, compile_mode="compile").train()
    ours.load_state_dict(eager.state_dict(), strict=True)
    assert not accelerate(ours).kept
    edges = 2 * crystal.edges.shape[1]
    by_target = torch.argsort(nequip_frames(crystal, torch.arange(edges))["edge_index"][0])
    for order in (torch.arange(edges), by_target, torch.arange(edges).flip(0)):
        frames = nequip_frames(crystal, order)
        got, want = ours(frames), eager(frames)
        for key in ("total_energy", "forces"):
            # Not by norm: components of forces are up to ten times smaller.
            torch.testing.assert_close(got[key], want[key], rtol=1e-11, atol=1e-12)
    assert len(ours._compiled_cache[0]) == 1


def test_states_load_strictly_both_ways(crystal):
    theirs, ours = nequip(torch.float64, **SMALL), nequip(torch.float64, **SMALL)
    accelerate(ours)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(1.5)
    other = copy.deepcopy(theirs)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    other.load_state_dict(ours.state_dict(), strict=True)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for module in (ours, other):
        assert difference(module, theirs, crystal, evaluate_nequip) < SAME


def test_a_restored_model_is_what_it_was(crystal):
    theirs = nequip(torch.float64, **SMALL)
    ours = copy.deepcopy(theirs)
    kinds = [type(part) for part in ours.modules()]  # graphs of torch.fx have one class each
    report = accelerate(ours)
    assert sorted(restore(ours)) == sorted(note.path for note in report.replaced)
    assert [type(part) for part in ours.modules()] == kinds
    state = ours.state_dict()
    assert list(state) == list(theirs.state_dict())
    assert all(value.equal(state[key]) for key, value in theirs.state_dict().items())
    assert difference(ours, theirs, crystal, evaluate_nequip) == 0.0


def test_every_module_passes_verification():
    report = accelerate(nequip(torch.float64, **SMALL), verify=True)
    assert not report.kept
    assert report.certificate.passes


def kinds_of(model):
    return Counter(type(part) for part in model.modules() if isinstance(part, Accelerated))


def test_copies_and_files_stay_accelerated(crystal, tmp_path):
    ours = nequip(torch.float64, **SMALL)
    accelerate(ours)
    want = evaluate_nequip(ours, crystal)
    path = tmp_path / "model.pt"
    torch.save(ours, path)
    copies = (
        copy.deepcopy(ours),
        pickle.loads(pickle.dumps(ours)),
        torch.load(path, weights_only=False),
    )
    for other in copies:
        assert kinds_of(other) == kinds_of(ours)
        for got, expected in zip(evaluate_nequip(other, crystal), want, strict=True):
            assert got.equal(expected)
        assert len(restore(other)) > 5
        assert difference(other, ours, crystal, evaluate_nequip) < SAME


def test_forces_carry_the_product_with_the_hessian():
    molecule = Atoms.ethanol(1, torch.float64)
    theirs = nequip(torch.float64, "CHO", **SMALL)
    ours = copy.deepcopy(theirs)
    accelerate(ours)
    direction = random(*molecule.positions.shape)
    positions = molecule.positions.clone().requires_grad_()
    forces = evaluate_nequip(theirs.train(), replace(molecule, positions=positions))[1]
    (want,) = torch.autograd.grad(forces, positions, direction)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(molecule.positions.clone().requires_grad_(), direction)
        # Only what can be differentiated again can be differentiated in forward mode.
        found = evaluate_nequip(ours.train(), replace(molecule, positions=dual))[1]
        got = forward_ad.unpack_dual(found).tangent
    torch.testing.assert_close(got, want, rtol=CURVATURE, atol=CURVATURE * float(want.abs().max()))


def test_a_model_of_a_package_is_accelerated_as_one_of_a_checkpoint(crystal, tmp_path):
    from nequip.scripts import _package_utils as rules

    theirs, path = nequip(torch.float64, **SMALL), tmp_path / "model.nequip.zip"
    with torch.package.PackageExporter(path) as exporter:
        exporter.mock([f"{name}.**" for name in rules._MOCK_MODULES])
        exporter.extern([f"{name}.**" for name in rules._EXTERNAL_MODULES])
        exporter.intern([f"{name}.**" for name in rules._INTERNAL_MODULES])
        exporter.save_pickle("model", "model.pkl", theirs)
    ours = torch.package.PackageImporter(path).load_pickle("model", "model.pkl")
    modules = {type(part).__module__ for part in ours.modules()}
    assert any(name.startswith("<torch_package_") and "e3nn.o3" in name for name in modules)
    report, want = accelerate(ours), accelerate(copy.deepcopy(theirs))
    assert [note.path for note in report.replaced] == [note.path for note in want.replaced]
    assert not report.kept
    assert difference(ours, theirs, crystal, evaluate_nequip) < SAME
    assert len(restore(ours)) == len(want.replaced)
    assert difference(ours, theirs, crystal, evaluate_nequip) == 0.0


def random_options(draw):
    """Options of a model that takes a second or two."""
    l_max, parity = draw.randint(1, 3), draw.random() < 0.5
    features = draw.choice([draw.randint(1, 6), [draw.randint(1, 6) for _ in range(l_max + 1)]])
    return {
        "l_max": l_max,
        "parity": parity,
        "num_features": features,
        "num_layers": draw.randint(1, 3),
        "num_bessels": draw.randint(2, 8),
        "radial_mlp_depth": draw.randint(1, 2),
        "radial_mlp_width": draw.randint(3, 16),
        "elements": draw.choice(["CHO", ["C", "H", "O", "Cu"]]),
    }


@pytest.mark.parametrize("seed", range(tier(4, 40)))
def test_random_models_compute_the_same(seed):
    theirs = nequip(torch.float64, **random_options(Random(seed)))
    ours = copy.deepcopy(theirs)
    assert not accelerate(ours).kept
    molecule = Atoms.ethanol(2, torch.float64)
    assert difference(ours, theirs, molecule, partial(evaluate_nequip, stress=True)) < SAME
