"""Which group lies in which, and the maps between them."""

import pytest
import torch

from equigeo.groups import (
    GL,
    SL,
    SO,
    Affine,
    GLPlus,
    O,
    Scaling,
    Similarity,
)
from equigeo.groups.algebra import CompactFactor, PolarForm, Stretches
from equigeo.testing import tolerance
from tests.draws import generator

CLOSE = tolerance(torch.float64, terms=16, condition=20)  # stretches multiply condition numbers

KINDS = [O, SO, SL, GL, GLPlus, Scaling, Similarity]


def test_inclusions():
    order = [
        (SO, O),
        (SO, SL),
        (SO, GL),
        (O, Similarity),
        (O, GL),
        (SL, GLPlus),
        (Scaling, GLPlus),
        (Scaling, Similarity),
        (Similarity, GL),
    ]
    for small, large in order:
        assert small(3).maps_to(large(3))
        assert not large(3).maps_to(small(3))
        assert not small(3).maps_to(large(2))
    for a, b in [(O, GLPlus), (SL, O), (Scaling, SL), (Similarity, GLPlus)]:
        assert not a(3).maps_to(b(3))


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
    torch.testing.assert_close(image, together, **CLOSE)
    x = 0.3 * source.generators()
    torch.testing.assert_close(
        target.exp(source.convert_algebra(x, target)), source.convert(source.exp(x), target)
    )


def test_unrelated_groups_have_no_map():
    with pytest.raises(ValueError, match=r"O\(3\) has no canonical map to SO\(3\)"):
        O(3).convert(torch.eye(3), SO(3))


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_factors_decide_which_group_lies_in_which(first, second):
    g = first(3).testing_elements(generator())
    assert first(3).is_subgroup_of(second(3)) == bool(second(3).contains(g).all())
    assert not first(2).is_subgroup_of(second(3))


def test_orders_of_both_factors():
    chain = [CompactFactor.TRIVIAL, CompactFactor.ROTATIONS, CompactFactor.ORTHOGONAL]
    for i, small in enumerate(chain):
        assert [small.lies_in(large) for large in chain] == [i <= j for j in range(3)]
    for space in Stretches:
        assert space.lies_in(space)
        assert Stretches.NONE.lies_in(space)
        assert space.lies_in(Stretches.SYMMETRIC)
    assert not Stretches.UNIFORM.lies_in(Stretches.TRACELESS)
    assert not Stretches.TRACELESS.lies_in(Stretches.UNIFORM)
    assert not Stretches.SYMMETRIC.lies_in(Stretches.TRACELESS)


def test_affine_groups_have_the_form_of_their_linear_parts():
    assert Affine(SL(3)).polar_form == SL(3).polar_form
    assert SL(3).polar_form == PolarForm(3, Stretches.TRACELESS, CompactFactor.ROTATIONS)
