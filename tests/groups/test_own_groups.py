"""Groups of one's own: what the base class makes of generators, components and equations."""

import pytest
import torch

from equigeo.groups import GL, SL, SO, Affine, Group, O
from equigeo.nn import BilinearProduct, Linear
from equigeo.reps import Irreps, Points, Representation, SymPower, TensorRep, Trivial, intertwiners
from equigeo.reps.intertwiners import is_isomorphic
from equigeo.testing import assert_equivariant
from tests.draws import generator, random
from tests.groups.cases import F64
from tests.groups.own_groups import Lorentz, Masses, Motions, Quarters
from tests.wrong_inputs import refused


@pytest.fixture(params=[Lorentz(), Motions(), Quarters()], ids=str)
def group(request: pytest.FixtureRequest) -> Group:
    return request.param


def test_groups_are_values(group):
    again = type(group)()
    assert again == group
    assert hash(again) == hash(group)
    assert group not in {*map(lambda kind: kind(), {Lorentz, Motions, Quarters} - {type(group)})}


def test_samples_reach_every_component(group):
    g = group.sample(200, generator=generator())
    assert group.contains(g, tol=1e-10).all()
    assert not group.contains(2 * group.identity())
    near = [torch.linalg.matrix_norm(g - c).min() for c in group.components()]
    assert max(near) < 0.5
    assert torch.equal(g, group.sample(200, generator=generator()))
    refused("radius must not be negative", group.sample, 1, radius=-1.0)


INSIDE = [
    (Lorentz(), GL(3), True),
    (Lorentz(), SL(3), True),
    (Lorentz(), O(3), False),
    (SO(3), Lorentz(), False),
    (Motions(), O(2), True),
    (Motions(), Affine(O(2)), True),
    (Affine(O(2)), Motions(), True),
    (Affine(SL(2)), Motions(), False),
    (Motions(), SO(2), False),
    (O(2), Motions(), True),
    (Quarters(), SO(2), True),
    (SO(2), Quarters(), False),
    (Quarters(), Motions(), True),
    (Quarters(), Lorentz(), False),
]


@pytest.mark.parametrize(("source", "target", "inside"), INSIDE, ids=str)
def test_maps_between_groups_follow_the_elements(source, target, inside):
    assert source.maps_to(target) == inside
    g = source.testing_elements(generator())
    if not inside:
        refused("has no canonical map to", source.convert, g, target)
        return
    image = source.convert(g, target)
    assert target.contains(image).all()
    together = source.convert(source.compose(g, g.flip(0)), target)
    torch.testing.assert_close(together, target.compose(image, image.flip(0)), **F64)


def test_maps_of_the_lorentz_group_are_those_of_the_theory():
    vector, space = TensorRep(Lorentz()), TensorRep(SO(3))
    (lowered,) = intertwiners(vector, vector.dual()) * 3**0.5
    metric = torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64))
    torch.testing.assert_close(lowered * lowered[1, 1].sign(), metric, **F64)
    for up, down in ((1, 1), (2, 2), (2, 1), (3, 2)):
        ours, known = (
            intertwiners(TensorRep(rep.group, up=up), TensorRep(rep.group, up=down))
            for rep in (vector, space)
        )
        assert len(ours) == len(known)


def test_maps_of_representations_without_direct_sums_and_of_finite_groups():
    masses = Masses()
    group = masses.group
    assert len(intertwiners(masses, masses)) == 1  # the identity, for nothing splits off
    assert len(intertwiners(masses, Trivial(group, 1))) == 1  # the mass
    assert len(intertwiners(Trivial(group, 1), masses)) == 0
    assert not is_isomorphic(masses, masses.dual())
    assert not is_isomorphic(masses, TensorRep(group) + Trivial(group, 1))
    vector = TensorRep(Quarters())
    assert len(intertwiners(vector, vector)) == 2
    assert len(intertwiners(vector @ vector, vector @ vector)) == 8  # SO(2) has 6


LAYERS: list[tuple[Representation, Representation]] = [
    (TensorRep(Lorentz()), SymPower(TensorRep(Lorentz()), 2) + Trivial(Lorentz(), 1)),
    (Masses(), Masses() + Trivial(Motions(), 2)),
    (TensorRep(Motions()) + Masses(), TensorRep(Motions())),
    (TensorRep(Quarters()), SymPower(TensorRep(Quarters()), 2)),
]


@pytest.mark.parametrize(("one", "other"), LAYERS, ids=str)
def test_layers_of_own_groups(one, other):
    several = 3 * one + Trivial(one.group, 2)
    linear = Linear(several, one + Trivial(one.group, 2), biases=True).double()
    torch.nn.init.ones_(linear.bias) if linear.bias_numel else None
    assert_equivariant(linear, inputs=[random(5, several.dim)], condition=50)
    product = BilinearProduct(several, one + Trivial(one.group, 1), other).double()
    inputs = [random(5, rep.dim, seed=k) for k, rep in enumerate(product.rep_in)]
    assert_equivariant(product, inputs=inputs, condition=50)


class Homogeneous(Group):
    """Motions that do not say how they move vectors."""

    n, size = 2, 3
    generators = Motions.generators
    contains = Motions.contains


def test_own_affine_groups_translate_points_and_know_their_linear_parts():
    shift = Motions().identity()
    shift[:2, 2] = torch.tensor([1.0, 2.0])
    assert Points(Motions()).act(shift, torch.zeros(2)).tolist() == [1.0, 2.0]
    assert TensorRep(Motions()).act(shift, torch.ones(2)).tolist() == [1.0, 1.0]
    assert Irreps("1o").restrict(SO(3)).group == SO(3)
    message = r"size 3 in 2 dimensions: its linear_group must define"
    refused(message, TensorRep, Homogeneous())
