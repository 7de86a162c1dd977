"""``accelerate`` on NequIP's own models, in an environment that has it: ``make test-interop``."""

from __future__ import annotations

import copy

import pytest
import torch

from equigeo.interop import accelerate
from tests.interop.interatomic import Crystal, evaluate_nequip, nequip
from tests.interop.law import assert_same_training, difference

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
    return Crystal.copper(3, torch.float64)


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS.keys())
def test_energies_and_forces_are_the_same(options, crystal):
    theirs = nequip(torch.float64, **{**SMALL, **options})
    ours = copy.deepcopy(theirs)
    report = accelerate(ours)
    assert not report.kept
    convolutions = [note for note in report.replaced if note.kind == "TensorProductScatter"]
    assert len(convolutions) == 2
    assert difference(ours, theirs, crystal, evaluate_nequip) < 1e-12


def test_training_is_the_same(crystal):
    theirs = nequip(torch.float64, **SMALL).train()
    ours = copy.deepcopy(theirs)
    accelerate(ours)
    assert_same_training(ours, theirs, crystal, evaluate_nequip)


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
        assert difference(module, theirs, crystal, evaluate_nequip) < 1e-12
