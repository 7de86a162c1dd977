"""Groups are values, obey the group laws, and map to each other."""

import math

import pytest
import torch

from equigeo.groups import GL, SL, SO, Affine, GLPlus, Group, O, Scaling, Similarity
from equigeo.groups.algebra import CompactFactor, PolarForm, Stretches
from equigeo.testing import assert_group
from tests.draws import generator
from tests.groups.cases import F64, LINEAR
from tests.tier import tier
from tests.wrong_inputs import refused

KINDS = [O, SO, SL, GL, GLPlus, Scaling, Similarity]
GROUPS: list[Group] = [*LINEAR, *(kind(4) for kind in KINDS), *map(Affine, LINEAR)]
# each kind, each dimension, and affine groups of both kinds of linear parts
FEW = [O(2), SO(3), SL(2), GL(3), GLPlus(4), Scaling(2), Similarity(3), Affine(O(3)), Affine(SL(2))]


@pytest.fixture(params=tier(FEW, GROUPS), ids=str)
def group(request: pytest.FixtureRequest) -> Group:
    return request.param


def test_groups_are_values(group):
    again = eval(repr(group))
    assert again == group
    assert hash(again) == hash(group)
    assert len({*GROUPS}) == len(GROUPS)
    with pytest.raises(AttributeError):
        group.n = 5
    group.generators().fill_(7.0)  # which are the caller's own
    assert (group.generators() != 7.0).any()


def test_groups_obey_the_laws(group):
    assert_group(group)


def test_samples_are_elements_and_follow_the_generator(group):
    g = group.sample(50, radius=1.5, generator=generator())
    assert g.shape == (50, group.size, group.size)
    assert g.dtype == torch.float64
    assert group.contains(g, tol=1e-11).all()
    first, second = (group.sample(3, generator=generator(1)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, group.sample(3, generator=generator(2)))


def test_testing_elements_reach_every_component(group):
    g = group.testing_elements(generator())
    assert group.contains(g, tol=1e-12).all()
    improper = torch.linalg.det(g) < 0
    assert improper.any() == (len(group.components()) == 2)
    assert (~improper).any()
    assert not (g == group.identity()).all(-1).all(-1).any()


def test_bad_arguments_are_refused():
    refused("n must be at least 2, got 1", O, 1)
    refused("linear must be a LinearGroup", Affine, 3, error=TypeError)
    refused("linear must be a LinearGroup", Affine, Affine(O(3)), error=TypeError)
    refused(r"elements of O\(3\) are \(..., 3, 3\), got \(2, 2\)", O(3).inverse, torch.eye(2))
    refused("radius must not be negative", GLPlus(2).sample, 1, radius=-1.0)
    refused("translations must be", Affine(O(3)).element, torch.eye(3), torch.zeros(2))
    message = r"O\(3\) has no canonical map to SO\(3\)"
    refused(message, O(3).convert, torch.eye(3), SO(3))


def test_affine_elements_act_before_they_translate():
    group = Affine(GL(2))
    g = group.element(2 * torch.eye(2), torch.tensor([1.0, 3.0]))
    assert g.tolist() == [[2, 0, 1], [0, 2, 3], [0, 0, 1]]
    assert group.element(torch.eye(2).expand(4, 1, 2, 2), torch.zeros(5, 2)).shape == (4, 5, 3, 3)


@pytest.mark.parametrize(
    ("kind", "dimensions"),
    [(O, (1, 3)), (SO, (1, 3)), (SL, (3, 8)), (GLPlus, (4, 9)), (Scaling, (1, 1))],
)
def test_dimensions_are_those_of_the_catalogue(kind, dimensions):
    assert (len(kind(2).generators()), len(kind(3).generators())) == dimensions
    assert len(Affine(kind(3)).generators()) == dimensions[1] + 3


def test_forms_are_those_of_the_catalogue():
    assert {kind for kind in KINDS if hasattr(kind, "haar")} == {O, SO}
    assert Affine(SL(3)).polar_form == SL(3).polar_form
    assert SL(3).polar_form == PolarForm(3, Stretches.TRACELESS, CompactFactor.ROTATIONS)


def test_contains_refuses_what_is_outside():
    mirror = torch.diag(torch.tensor([-1.0, 1.0, 1.0]))
    assert O(3).contains(mirror)
    assert not SO(3).contains(mirror)
    assert not GLPlus(3).contains(mirror)
    assert not SL(3).contains(2 * torch.eye(3))
    assert not O(3).contains(torch.full((3, 3), math.nan))
    assert not GL(3).contains(torch.zeros(3, 3))
    assert not Scaling(3).contains(-torch.eye(3))
    assert not Similarity(3).contains(torch.diag(torch.tensor([1.0, 1.0, 2.0])))
    assert not Affine(O(3)).contains(2 * torch.eye(4))


@pytest.mark.parametrize("group", LINEAR, ids=str)
def test_inverses_and_determinants_from_coordinates(group):
    c = 0.5 * torch.randn(20, group.dimension, dtype=torch.float64, generator=generator())
    g = group.from_coordinates(c)
    torch.testing.assert_close(group.inverse_from_coordinates(c), group.inverse(g), **F64)
    torch.testing.assert_close(group.log_determinant(c), torch.linalg.det(g).log(), **F64)
    refused(r"coordinates of .* are", group.inverse_from_coordinates, c[:, :0])


@pytest.mark.parametrize("kind", [O, SO, SL, GL, GLPlus, Similarity])
def test_rotations_of_four_dimensions_have_no_chart(kind):
    group = kind(4)
    c = torch.zeros(group.dimension, dtype=torch.float64)
    calls = (group.from_coordinates, group.inverse_from_coordinates)
    for call, x in [*((call, c) for call in calls), (group.coordinates, group.identity())]:
        refused(r"\(4\) has no coordinates: .* got n = 4", call, x)
    assert Scaling(4).coordinates(group.identity()).tolist() == [0.0]


@pytest.mark.parametrize("group", [SO(3), O(3), SL(2), GL(2), Similarity(3)], ids=str)
def test_generators_are_of_the_cpu_whatever_the_default_device(group):
    want = group.generators()
    with torch.device("meta"):
        assert torch.equal(group.generators(), want)


@pytest.mark.parametrize(
    ("source", "target"),
    [(SO(3), O(3)), (SO(3), Affine(GL(3))), (Affine(SO(3)), O(3)), (Affine(O(2)), Affine(GL(2)))],
    ids=str,
)
def test_canonical_maps_are_homomorphisms(source, target):
    g, h = source.sample(5, generator=generator()), source.sample(5, generator=generator(1))
    image = source.convert(source.compose(g, h), target)
    assert target.contains(image).all()
    together = target.compose(source.convert(g, target), source.convert(h, target))
    torch.testing.assert_close(image, together, **F64)
    x = 0.3 * source.generators()
    torch.testing.assert_close(
        target.exp(source.convert_algebra(x, target)), source.convert(source.exp(x), target)
    )


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_factors_decide_which_group_lies_in_which(first, second):
    g = first(3).testing_elements(generator())
    inside = bool(second(3).contains(g).all())
    assert first(3).is_subgroup_of(second(3)) == first(3).maps_to(second(3)) == inside
    assert not first(2).is_subgroup_of(second(3))
    assert not first(2).maps_to(second(3))
