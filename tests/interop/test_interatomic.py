"""``accelerate`` on models of the library that is installed: ``make test-interop``."""

import copy
import os
import pickle
from collections import Counter
from dataclasses import replace
from functools import partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random

import pytest
import torch
from torch.autograd import forward_ad

from equigeo.interop import accelerate, restore
from equigeo.interop.accelerated.base import Accelerated
from equigeo.interop.frozen import Frozen, FrozenSkip
from tests.interop.e3nn_modules import random
from tests.interop.interatomic import (
    MODELS,
    SAME,
    Atoms,
    assert_same_training,
    close_by_size,
    default_dtype,
    difference,
    evaluate_mace,
    evaluate_nequip,
    mace,
    mace_data,
    mace_energy,
    mace_hessian,
    mace_hessian_of_copies,
    mace_hessian_product,
    nequip_frames,
)
from tests.tier import tier

LIBRARY = os.environ.get("EQUIGEO_TEST_LIBRARY") or next(filter(find_spec, MODELS), None)
if LIBRARY is None:
    pytest.skip("needs a library of models: make test-interop", allow_module_level=True)
make, evaluate = MODELS[LIBRARY]
pytestmark = pytest.mark.filterwarnings("ignore")  # what they and their dependencies warn of
of_nequip = pytest.mark.skipif(evaluate is not evaluate_nequip, reason="needs NequIP or Allegro")
of_mace = pytest.mark.skipif(LIBRARY != "mace", reason="needs MACE")
of_sevenn = pytest.mark.skipif(LIBRARY != "sevenn", reason="needs SevenNet")

SMALL = {
    "nequip": {"num_features": 8, "num_layers": 2, "radial_mlp_width": 16},
    "mace": {"hidden_irreps": "4x0e+4x1o", "radial_MLP": [8]},
    "allegro": {"num_scalar_features": 8, "num_tensor_features": 4, "num_layers": 3},
    "sevenn": {"channel": 8, "num_convolution_layer": 2, "weight_nn_hidden_neurons": [8]},
}[LIBRARY]
OPTIONS = {
    "nequip": {
        "as in the figure": {},
        "one parity": {"parity": False},
        "degree 3": {"l_max": 3},
        "degree 1, mixed widths": {"l_max": 1, "num_features": [6, 3]},
    },
    "mace": {
        "as in the figure": {},
        "basis of MACE": {"use_reduced_cg": False},
        "no skip": {"block": "RealAgnosticInteractionBlock"},
        "density": {"block": "RealAgnosticDensityResidualInteractionBlock"},
        "Agnesi, density": {
            "block": "RealAgnosticDensityResidualInteractionBlock",
            "distance_transform": "Agnesi",
        },
        "Soft": {"distance_transform": "Soft"},
        "nonlinear": {"block": "RealAgnosticResidualNonLinearInteractionBlock"},
        "degree 2, three layers": {"max_ell": 2, "num_interactions": 3, "correlation": 2},
        "both parities": {"hidden_irreps": "4x0e+4x0o+4x1o+4x1e", "max_ell": 2, "correlation": 2},
    },
    "allegro": {
        "as in the figure": {},
        "one parity": {"parity": False},
        "degree 3": {"l_max": 3, "num_layers": 2},
        "degree 1, no weights per channel": {"l_max": 1, "tp_path_channel_coupling": False},
    },
    "sevenn": {
        "as in the figure": {},
        "degree 3, both parities": {"lmax": 3, "is_parity": True, "channel": 4},
        "products as self-connections": {"self_connection_type": "nequip", "lmax": 1},
        "two modalities": {
            "use_modality": True,
            "_number_of_modalities": 2,
            "_modal_map": {"PBE": 0, "R2SCAN": 1},
            "use_modal_wise_shift": False,
            "use_modal_wise_scale": False,
            "use_modal_self_inter_intro": True,
            "use_modal_output_block": True,
            "shift": [0.0],
            "scale": [1.0],
        },
    },
}[LIBRARY]
CONVOLUTION = "equigeo.ops.products.channelwise_conv"
CONTRACTION = "equigeo.tensor_products.SymmetricContraction"
STRIDED = "equigeo.ops.copywise_product"


@pytest.fixture(scope="module")
def crystal():
    return Atoms.copper(3, torch.float64)


@pytest.fixture(scope="module")
def molecule():
    return Atoms.ethanol(1, torch.float64)


@pytest.fixture(scope="module")
def accelerated():
    model = make(torch.float64, elements="CHO", **SMALL)
    assert not accelerate(model).kept
    return model


def pair(**options):
    """Two models of one seed: a model of MACE with paths that vanish cannot be copied."""
    return [make(torch.float64, **{**SMALL, **options}) for _ in range(2)]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_energies_and_forces_are_the_same(options, crystal):
    theirs, ours = pair(**options)
    report = accelerate(ours)
    assert not report.kept
    replaced = Counter(note.note for note in report.replaced)
    if LIBRARY == "allegro":  # one product per layer, two of harmonics and weights
        assert replaced[STRIDED] == options.get("num_layers", 3) + 2
    else:
        layers = options.get("num_interactions", 2)
        assert replaced[CONVOLUTION] == layers
        assert replaced[CONTRACTION] == (layers if LIBRARY == "mace" else 0)
    assert difference(ours, theirs, crystal, evaluate) < SAME


def test_training_is_the_same(crystal):
    theirs, ours = (model.train() for model in pair())
    accelerate(ours)
    assert_same_training(ours, theirs, crystal, evaluate)


FROZEN = {
    "nequip": ("as in the figure", "degree 3"),
    "mace": ("as in the figure", "no skip", "density", "Agnesi, density", "Soft"),
    "sevenn": ("as in the figure",),
}.get(LIBRARY, ())
can_freeze = pytest.mark.skipif(not FROZEN, reason="has no part that can be frozen")


def close(molecule):
    """A molecule with two atoms closer than the table begins."""
    positions = molecule.positions.clone()
    positions[1] = positions[0] + torch.tensor([0.0, 0.05, 0.0])
    return replace(molecule, positions=positions)


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_models_are_the_same(name, crystal, molecule):
    theirs, ours = pair(**OPTIONS[name], elements="CHO")
    report = accelerate(ours, frozen=True)
    tables = [note for note in report.replaced if note.note.startswith("splines of")]
    assert len(tables) == 2 * (1 + ("density" in name))
    for atoms in (crystal, molecule, close(molecule)):
        # Splines are exact to 1e-12, derivatives to 1e-11; forces are smaller than their terms.
        assert difference(ours, theirs, atoms, evaluate) < 1e-9


@of_mace
def test_frozen_networks_with_adapters_are_not_listed_as_kept(molecule):
    from mace.modules.lora import inject_LoRAs

    theirs, ours = (inject_LoRAs(model) for model in pair(elements="CHO"))
    for model in (theirs, ours):
        for seed, (name, parameter) in enumerate(model.named_parameters()):
            if "lora" in name:
                parameter.data = 0.1 * random(*parameter.shape, seed=seed)
    adapted = [note.path for note in accelerate(copy.deepcopy(ours)).kept]
    assert adapted == [f"interactions.{k}.conv_tp_weights" for k in range(2)]
    report = accelerate(ours, frozen=True)
    assert not report.kept
    assert set(adapted) < {note.path for note in report.replaced}
    assert difference(ours, theirs, molecule, evaluate) < 1e-9  # as above


@can_freeze
def test_frozen_models_in_single_precision_are_as_exact_as_accelerated_ones(molecule):
    exact = make(torch.float64, elements="CHO", **SMALL)
    want, errors = evaluate(exact, molecule), []
    for frozen in (False, True):
        single = make(torch.float32, elements="CHO", **SMALL)
        single.load_state_dict(copy.deepcopy(exact).to(torch.float32).state_dict())
        accelerate(single, frozen=frozen)
        got = evaluate(single, Atoms.ethanol(1, torch.float32))
        errors.append(max(float((a - b).norm() / b.norm()) for a, b in zip(got, want, strict=True)))
    assert errors[1] < 2 * errors[0] + 1e-6


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_models_follow_changes_in_place(name, molecule):
    theirs, ours = pair(**OPTIONS[name], elements="CHO")
    accelerate(ours, frozen=True)
    before = evaluate(ours, molecule)[0]
    for parameter in [*theirs.parameters(), *ours.parameters()]:
        parameter.data.mul_(1.1)
    # As in the test above, and where networks are evaluated, exact to rounding.
    assert difference(ours, theirs, molecule, evaluate) < 1e-9
    assert not torch.isclose(evaluate(ours, molecule)[0], before)


@of_mace
def test_frozen_skip_connections_accept_any_weights_of_species():
    theirs, ours = pair(elements="CHO")
    accelerate(ours, frozen=True)
    skips = [model.interactions[1].skip_tp for model in (theirs, ours)]
    assert type(skips[1]).made_of[0] is FrozenSkip
    x, mixed = (random(7, irreps.dim) for irreps in (skips[0].irreps_in1, skips[0].irreps_in2))
    hot = torch.nn.functional.one_hot(torch.tensor([2, 0, 0, 2, 1, 0, 2]), 3).double()
    one = hot[:1].expand(7, -1)
    for y in (hot, one, mixed, 2 * hot, 0 * hot, hot[:0]):
        want, got = (skip(x[: len(y)], y) for skip in skips)
        torch.testing.assert_close(got, want)


@can_freeze
def test_frozen_models_in_another_precision_are_as_exact_as_it(crystal):
    theirs, ours = (model.float() for model in pair())
    accelerate(ours, frozen=True)
    # A table in single precision would be exact to 1e-7.
    assert difference(ours.double(), theirs.double(), crystal, evaluate) < 1e-9


@can_freeze
def test_frozen_models_have_second_derivatives(molecule):
    if LIBRARY == "mace":
        theirs, ours = pair(elements="CHO")
        accelerate(ours, frozen=True)
        close_by_size(mace_hessian(ours, molecule), mace_hessian(theirs, molecule))


@can_freeze
def test_a_frozen_model_refuses_training_and_states_until_restored(molecule, tmp_path):
    theirs, ours = pair(elements="CHO")
    accelerate(ours, frozen=True)
    accelerate(ours, frozen=True)  # again, which changes nothing
    assert not ours.eval().training
    assert list(ours.state_dict()) == list(theirs.state_dict())
    outer = torch.nn.Sequential(ours)
    parts = [part for part in ours.modules() if isinstance(part, Frozen) and part is not ours]
    for module in (ours, outer, *parts):
        for call in (module.train, partial(module.load_state_dict, module.state_dict())):
            with pytest.raises(RuntimeError, match=r"frozen model cannot .*restore"):
                call()
        module.eval()
    for part in parts:
        with pytest.raises(ValueError, match="expected the whole frozen model, got its"):
            restore(part)
    path = tmp_path / "model.pt"
    torch.save(ours, path)
    want = evaluate(ours, molecule)
    for other in (copy.deepcopy(ours), torch.load(path, weights_only=False)):
        for got, expected in zip(evaluate(other, molecule), want, strict=True):
            assert got.equal(expected)
    restore(ours)
    assert difference(ours, theirs, molecule, evaluate) == 0.0
    ours.train().load_state_dict(theirs.state_dict())


def test_states_load_strictly_both_ways(crystal):
    theirs, ours = pair()
    accelerate(ours)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(1.5)
    other = copy.deepcopy(theirs)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    other.load_state_dict(ours.state_dict(), strict=True)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for module in (ours, other):
        assert difference(module, theirs, crystal, evaluate) < SAME


def test_a_restored_model_is_what_it_was(crystal):
    theirs, ours = pair()
    kinds = [type(part) for part in ours.modules()]  # graphs of torch.fx have one class each
    report = accelerate(ours)
    assert sorted(restore(ours)) == sorted(note.path for note in report.replaced)
    assert [type(part) for part in ours.modules()] == kinds
    state = ours.state_dict()
    assert list(state) == list(theirs.state_dict())
    assert all(value.equal(state[key]) for key, value in theirs.state_dict().items())
    assert difference(ours, theirs, crystal, evaluate) == 0.0
    if LIBRARY == "mace":
        from e3nn.util import jit

        assert difference(jit.compile(ours), theirs, crystal, evaluate) < SAME


def test_every_module_passes_verification():
    report = accelerate(make(torch.float64, **SMALL), verify=True)
    assert not report.kept
    assert report.certificate.passes


def test_copies_and_files_stay_accelerated(accelerated, molecule, tmp_path):
    def kinds_of(model):
        return Counter(type(part) for part in model.modules() if isinstance(part, Accelerated))

    want = evaluate(accelerated, molecule)
    path = tmp_path / "model.pt"
    torch.save(accelerated, path)
    copies = (
        copy.deepcopy(accelerated),
        pickle.loads(pickle.dumps(accelerated)),
        torch.load(path, weights_only=False),
    )
    for other in copies:
        assert kinds_of(other) == kinds_of(accelerated)
        for got, expected in zip(evaluate(other, molecule), want, strict=True):
            assert got.equal(expected)
        assert len(restore(other)) > 5
        assert difference(other, accelerated, molecule, evaluate) < SAME


def random_nequip(draw):
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


def random_allegro(draw):
    """Options of a model that takes a second or two."""
    return {
        "l_max": draw.randint(1, 3),
        "parity": draw.random() < 0.5,
        "num_layers": draw.randint(1, 3),
        "num_scalar_features": draw.choice([2, 8]),
        "num_tensor_features": draw.randint(1, 6),
        "tp_path_channel_coupling": draw.random() < 0.5,
        "elements": draw.choice(["CHO", ["C", "H", "O", "Cu"]]),
    }


def random_mace(draw):
    """Options of a model that takes a second or two."""
    mul, most = draw.randint(1, 5), draw.randint(0, 2)
    block = draw.choice([options["block"] for options in OPTIONS.values() if "block" in options])
    # MACE cannot build the gates of its nonlinear block for both parities.
    natural = "NonLinear" in block or draw.random() < 0.5
    degrees = [(l, p) for l in range(most + 1) for p in (1, -1)]
    kept = [(l, p) for l, p in degrees if not natural or p == (-1) ** l]
    return {
        "hidden_irreps": "+".join(f"{mul}x{l}{'e' if p == 1 else 'o'}" for l, p in kept),
        "block": block,
        "max_ell": draw.randint(max(1, most), 3),
        "correlation": draw.randint(1, 3),
        "num_interactions": draw.randint(2, 3),
        "radial_MLP": [draw.randint(3, 16) for _ in range(draw.randint(1, 3))],
        "use_reduced_cg": draw.random() < 0.5,
    }


def random_sevenn(draw):
    """Options of a model that takes a second or two."""
    return {
        "channel": draw.randint(2, 6),  # of which the readout has half
        "lmax": draw.randint(1, 3),
        "is_parity": draw.random() < 0.5,
        "num_convolution_layer": draw.randint(1, 3),
        "self_connection_type": draw.choice(["linear", "nequip"]),
        "weight_nn_hidden_neurons": [draw.randint(3, 16) for _ in range(draw.randint(1, 2))],
        "use_bias_in_linear": draw.random() < 0.5,
    }


RANDOM = {
    "nequip": random_nequip,
    "allegro": random_allegro,
    "mace": random_mace,
    "sevenn": random_sevenn,
}[LIBRARY]


@pytest.mark.parametrize("seed", range(tier(4, 40)))
def test_random_models_compute_the_same(seed):
    options = RANDOM(Random(seed))
    theirs, ours = (make(torch.float64, **{"elements": "CHO", **options}) for _ in range(2))
    assert not accelerate(ours).kept
    molecules = Atoms.ethanol(2, torch.float64)
    assert difference(ours, theirs, molecules, partial(evaluate, stress=True)) < SAME


@pytest.mark.skipif(LIBRARY != "nequip", reason="takes minutes for Allegro")
@pytest.mark.parametrize("frozen", [False, True])
def test_a_model_that_nequip_traces_and_compiles_holds_for_other_graphs(
    frozen, crystal, monkeypatch
):
    quick = partial(torch.compile, backend="aot_eager")
    monkeypatch.setattr(torch, "compile", quick)
    smaller = {**SMALL, "l_max": 1, "num_features": 4}
    eager = make(torch.float64, **smaller).train(not frozen)
    ours = make(torch.float64, **smaller, compile_mode="compile").train(not frozen)
    ours.load_state_dict(eager.state_dict(), strict=True)
    assert not accelerate(ours, frozen=frozen).kept
    edges = 2 * crystal.edges.shape[1]
    by_target = torch.argsort(nequip_frames(crystal, torch.arange(edges))["edge_index"][0])
    for order in (torch.arange(edges), by_target, torch.arange(edges).flip(0)):
        frames = nequip_frames(crystal, order)
        got, want = ours(frames), eager(frames)
        for key in ("total_energy", "forces"):
            # Not by norm: components of forces are up to ten times smaller.
            torch.testing.assert_close(got[key], want[key], rtol=1e-11, atol=1e-12)
    assert len(ours._compiled_cache[0]) == 1
    if frozen:
        inside = (frames["edge_cell_shift"] == 0).all(dim=1)
        source, target = frames["edge_index"][:, inside][:, 0]
        frames["pos"][source] = frames["pos"][target] + torch.tensor([0.0, 0.05, 0.0])
        with pytest.raises(RuntimeError, match=r"shorter than 0\.05 of the cutoff"):
            ours(frames)


@pytest.mark.full
@pytest.mark.skipif(LIBRARY not in ("nequip", "allegro"), reason="compiles models of NequIP")
@pytest.mark.filterwarnings("ignore")  # inductor's own
def test_nequip_compiles_accelerated_models_to_packages(crystal, tmp_path, monkeypatch):
    from nequip.data import AtomicDataDict
    from nequip.model.inference_models.aotinductor import load_aotinductor_model
    from nequip.scripts import compile as script

    theirs, ours = pair()
    accelerate(ours, frozen=bool(FROZEN))
    frames = nequip_frames(crystal, torch.arange(2 * crystal.edges.shape[1]))
    loaded = ours, AtomicDataDict.frame_from_batched(frames, 0)
    monkeypatch.setattr(script, "load_saved_model", lambda *names, **options: loaded)
    path = str(tmp_path / "model.nequip.pt2")
    target = ("--mode", "aotinductor", "--device", "cpu", "--target", "ase")
    script.main(["last.ckpt", path, *target])
    package, metadata = load_aotinductor_model(path, "cpu")
    assert metadata["nequip_custom_ops_libs"] == "equigeo.ops"  # imported before it is loaded
    # Splines are exact to 1e-12, derivatives to 1e-11; forces are smaller than their terms.
    assert difference(package, theirs, Atoms.copper(4, torch.float64), evaluate) < 1e-9


@of_nequip
def test_forces_of_nequip_carry_the_product_with_the_hessian(molecule):
    theirs = make(torch.float64, "CHO", **SMALL)
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
    close_by_size(got, want)


@of_nequip
def test_a_model_of_a_package_is_accelerated_as_one_of_a_checkpoint(crystal, tmp_path):
    from nequip.scripts import _package_utils as rules

    theirs, path = make(torch.float64, **SMALL), tmp_path / "model.nequip.zip"
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


@of_mace
def test_lammps_takes_a_restored_model(accelerated, molecule, tmp_path):
    import mace as library
    from e3nn.util import jit

    # what mace_create_lammps_model scripts; its package imports much that is not needed
    source = Path(library.__file__).parent / "calculators" / "lammps_mace.py"
    spec = spec_from_file_location("lammps_mace", source)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    model = copy.deepcopy(accelerated)
    with pytest.raises(RuntimeError, match=r"call equigeo\.interop\.restore\(model\) first"):
        jit.compile(module.LAMMPS_MACE(copy.deepcopy(model)))
    restore(model)
    path = str(tmp_path / "model-lammps.pt")
    jit.compile(module.LAMMPS_MACE(model)).save(path)
    data = mace_data(accelerated, molecule, molecule.positions.clone().requires_grad_())
    del data["head"]
    local = torch.ones(len(molecule.kinds), dtype=torch.float64)
    found = torch.jit.load(path)(data, local)
    energy, forces = evaluate_mace(accelerated, molecule)
    torch.testing.assert_close(found["total_energy_local"].squeeze(), energy)
    torch.testing.assert_close(found["forces"], forces)


def test_the_step_time_is_divided_among_the_modules(molecule):
    model, given = make(torch.float64, elements="CHO", **SMALL), []
    handle = model.register_forward_pre_hook(lambda _, args: given.append(copy.deepcopy(args)))
    evaluate(model, molecule)
    handle.remove()
    report = accelerate(model, example=given[0])
    assert report.replaced
    assert 0.0 < report.share < 1.0
    shares = [part.share for part in report.others]
    assert min(shares) >= 0.0
    assert sum(shares, report.share) == pytest.approx(1.0)
    evaluate(model, molecule)


@pytest.fixture(scope="module")
def curvature(molecule):
    """The Hessian, by MACE itself."""
    return mace_hessian(mace(torch.float64, elements="CHO", **SMALL), molecule)


@of_mace
def test_derivatives_under_torch_func_are_the_same(accelerated, molecule, curvature, monkeypatch):
    # MACE asks positions for a gradient, which torch.func refuses: under it they have one.
    ask = torch.Tensor.requires_grad_
    monkeypatch.setattr(torch.Tensor, "requires_grad_", lambda x, *yes: x if yes else ask(x))
    energy, positions = partial(mace_energy, accelerated, molecule), molecule.positions
    direction = random(*positions.shape)
    slope = torch.func.grad(energy)(positions)
    _, along = torch.func.jvp(energy, (positions,), (direction,))
    close_by_size(along, (slope * direction).sum())
    same, found = torch.func.jvp(torch.func.grad(energy), (positions,), (direction,))
    close_by_size(same, slope)
    close_by_size(found, torch.einsum("iajb,jb->ia", curvature, direction))
    close_by_size(torch.func.jacrev(torch.func.grad(energy))(positions), curvature)


@of_mace
def test_forces_of_mace_carry_the_hessian_and_products_with_it(accelerated, molecule, curvature):
    direction = random(*molecule.positions.shape)
    found = mace_hessian_product(accelerated, molecule, direction)
    close_by_size(found, torch.einsum("iajb,jb->ia", curvature, direction))
    close_by_size(mace_hessian_of_copies(accelerated, molecule), curvature)
    close_by_size(mace_hessian(accelerated, molecule), curvature)


@of_mace
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


@of_mace
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


CHECKPOINTS = ["7net-0_11July2024", "7net-0_22May2024", "7net-l3i5", "7net-mf-0"]


@of_sevenn
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_pretrained_models_of_sevennet_compute_the_same(name, frozen):
    from ase.build import bulk
    from sevenn.calculator import SevenNetCalculator

    modal = "PBE" if "mf" in name else None
    theirs, ours = (SevenNetCalculator(name, device="cpu", modal=modal) for _ in range(2))
    report = accelerate(ours.model, frozen=frozen)
    assert not report.kept
    assert not report.unknown
    replaced = Counter(note.note.partition(" of ")[0] for note in report.replaced)
    assert replaced[CONVOLUTION] == 5
    assert replaced["splines"] == 5 * frozen
    assert replaced["equigeo.nn.Gate"] == 5
    atoms = bulk("NaCl", "rocksalt", 5.7)
    atoms.rattle(0.2, seed=0)
    # As SevenNet wraps a model for its D3 correction; this sets attributes of all modules.
    wrapped = SevenNetCalculator(ours.model, "model_instance", device="cpu", modal=modal)
    for prop in ("energy", "forces", "stress"):
        want, got = (torch.tensor(each.get_property(prop, atoms)) for each in (theirs, wrapped))
        # 32 epsilon of float32 times the root of 300 neighbors, whose forces cancel.
        assert float((got - want).norm() / want.norm()) < 7e-5, prop
    inner = [part for part in ours.model.modules() if part is not ours.model]
    assert all(part.is_as_read() for part in inner if isinstance(part, Accelerated))


@of_sevenn
def test_lammps_takes_a_restored_model_of_sevennet(molecule):
    from e3nn.util import jit

    atoms = replace(molecule, positions=molecule.positions.float(), shifts=molecule.shifts.float())
    ours = make(torch.float32, elements="CHO", **SMALL)
    want = evaluate(ours, atoms)[0]
    accelerate(ours)
    vectors = (atoms.positions[atoms.edges[1]] - atoms.positions[atoms.edges[0]]).requires_grad_()
    data = {"x": atoms.kinds, "edge_index": atoms.edges, "edge_vec": vectors}
    deployed = copy.deepcopy(ours)  # as in sevenn.scripts.deploy
    deployed.delete_module_by_key("force_output")
    deployed.eval_type_map = False
    with pytest.raises(RuntimeError, match=r"call equigeo\.interop\.restore\(model\) first"):
        jit.script(copy.deepcopy(deployed))
    restore(deployed)
    program = torch.jit.freeze(jit.script(deployed))
    torch.testing.assert_close(program(data)["inferred_total_energy"], want)
