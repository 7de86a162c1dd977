"""``accelerate`` on MACE's own models, in an environment that has it: ``make test-interop``."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch

from equigeo.interop import accelerate, restore
from tests.interop.interatomic import Crystal, evaluate_mace, mace
from tests.interop.law import assert_same_training, difference

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
    return Crystal.copper(3, torch.float64)


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
    assert difference(ours, theirs, crystal, evaluate_mace) < 1e-12


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
        assert difference(module, theirs, crystal, evaluate_mace) < 1e-12


def test_a_restored_model_is_what_it_was_and_is_scripted_as_before(crystal):
    from e3nn.util import jit

    theirs, ours = mace(torch.float64, **SMALL), mace(torch.float64, **SMALL)
    report = accelerate(ours)
    assert sorted(restore(ours)) == sorted(note.path for note in report.replaced)
    assert [type(part) for part in ours.modules()] == [type(part) for part in theirs.modules()]
    state = ours.state_dict()
    assert list(state) == list(theirs.state_dict())
    assert all(value.equal(state[key]) for key, value in theirs.state_dict().items())
    assert difference(jit.compile(ours), theirs, crystal, evaluate_mace) < 1e-12


def test_every_module_passes_verification(crystal):
    report = accelerate(mace(torch.float64, **SMALL), verify=True)
    assert not report.kept
    assert report.certificate.passes
