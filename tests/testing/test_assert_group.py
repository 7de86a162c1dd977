"""Groups and representations that contradict themselves are refused, those of the library pass."""

from dataclasses import dataclass, field

import pytest
import torch

from equigeo.groups import SL, SO, Affine, GLPlus, Group, O
from equigeo.reps import Irreps, Points, Representation, SymPower, TensorRep, Trivial
from equigeo.testing import assert_equivariant, assert_group, assert_representation
from tests.groups.cases import LINEAR
from tests.groups.own_groups import Lorentz, Masses, Motions, Quarters
from tests.wrong_inputs import refused

GROUPS = [*LINEAR, O(4), SL(4), Affine(O(3)), Affine(GLPlus(2)), Lorentz(), Motions(), Quarters()]
ROTATIONS = SO(3)
ETA = torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64))


@dataclass(frozen=True)
class Boosts(Group):
    """The Lorentz group of a plane and time, with faults that can be switched on."""

    fault: str = ""
    n = 3

    def generators(self):
        basis = torch.zeros(3, 3, 3, dtype=torch.float64)
        basis[0, 0, 1] = basis[0, 1, 0] = basis[1, 0, 2] = basis[1, 2, 0] = 1.0
        basis[2, 1, 2], basis[2, 2, 1] = -1.0, 1.0
        if self.fault == "dilation":
            return torch.cat([basis, torch.eye(3, dtype=torch.float64)[None]])
        if self.fault == "open":
            return basis[:2]
        if self.fault == "dependent":
            return torch.cat([basis, basis[:1]])
        return basis[:, :2, :2] if self.fault == "shape" else basis

    def components(self):
        identity = torch.eye(3, dtype=torch.float64)
        if self.fault == "component":
            return torch.stack([identity, 2 * identity])
        return torch.stack([-identity]) if self.fault == "identity" else identity[None]

    def contains(self, g, *, tol=None):
        defect = g.mT @ ETA.to(g) @ g - ETA.to(g)
        inside = defect.abs().amax((-2, -1)) <= 1e-6  # far above rounding
        if self.fault == "products":
            return inside & ((g - torch.eye(3).to(g)).abs().amax((-2, -1)) < 1.2)
        return inside


@dataclass(frozen=True)
class Wrong(Representation):
    """Vectors of rotations, with a fault."""

    fault: str
    group: Group = field(init=False, default=ROTATIONS)
    dim = 3

    def matrix(self, g):
        return {"product": 2 * g, "transpose": g.mT}.get(self.fault, g)

    def algebra(self, x):
        return 2 * x if self.fault == "algebra" else x

    def act(self, g, x):
        return x if self.fault == "act" else super().act(g, x)


@pytest.mark.parametrize("group", [*GROUPS, Boosts()], ids=str)
def test_groups_hold(group):
    assert_group(group)


@pytest.mark.parametrize(
    ("fault", "match"),
    [
        ("dilation", "exponential of 0.9 times generator 3"),
        ("open", "brackets of its generators"),
        ("dependent", "generators depend on one another"),
        ("shape", r"generators must be \(k, 3, 3\)"),
        ("component", "does not contain its component 1"),
        ("identity", "first component must be the identity"),
        ("products", "is no group"),
    ],
)
def test_groups_that_contradict_themselves_are_refused(fault, match):
    refused(match, assert_group, Boosts(fault), error=AssertionError)
    vector = TensorRep(Boosts(fault))
    if fault != "shape":
        x = torch.ones(2, 3, dtype=torch.float64)
        with pytest.raises(AssertionError, match="is no group"):
            assert_equivariant(lambda x: 2 * x, vector, vector, inputs=[x])


def test_representations_hold():
    for rep in (
        TensorRep(GLPlus(3), up=1, down=1, density=0.5),
        Irreps("0e + 2x1o + 2e"),
        SymPower(TensorRep(SL(2)), 3),
        Trivial(O(3), 2),
        Points(Affine(GLPlus(3))),
        TensorRep(Boosts()) @ TensorRep(Boosts()),
        Trivial(SO(3), 0),
        Masses(),
    ):
        assert_representation(rep)


@pytest.mark.parametrize("fault", ["product", "transpose", "algebra", "act"])
def test_representations_that_contradict_themselves_are_refused(fault):
    refused("is no representation", assert_representation, Wrong(fault), error=AssertionError)


def test_other_things_are_refused():
    refused("group must be a Group, got int", assert_group, 3, error=TypeError)
    refused("rep must be a Representation, got O", assert_representation, O(3), error=TypeError)
