"""Groups are values, and their elements obey the group laws."""

from __future__ import annotations

import pytest
import torch

from equigeo.groups import GL, SL, SO, Affine, GLPlus, Group, O, Scaling, Similarity
from equigeo.testing import tolerance

KINDS = [O, SO, SL, GL, GLPlus, Scaling, Similarity]
LINEAR = [kind(n) for kind in KINDS for n in (2, 3, 4)]
GROUPS: list[Group] = [*LINEAR, *(Affine(group) for group in LINEAR if group.n < 4)]
CLOSE = tolerance(torch.float64, terms=16, condition=20)  # stretches multiply condition numbers


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(params=GROUPS, ids=str)
def group(request: pytest.FixtureRequest) -> Group:
    return request.param


def test_groups_are_values(group):
    again = eval(repr(group))
    assert again == group
    assert hash(again) == hash(group)
    assert len({*GROUPS}) == len(GROUPS)
    with pytest.raises(AttributeError):
        group.n = 5


def test_samples_are_elements(group):
    g = group.sample(50, radius=1.5, generator=generator())
    assert g.shape == (50, group.size, group.size)
    assert g.dtype == torch.float64
    assert group.contains(g, tol=1e-11).all()


def test_samples_follow_the_generator(group):
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


def test_inverse_and_products_stay_in_the_group(group):
    g, h = group.testing_elements(generator()), group.testing_elements(generator(1)).flip(0)
    product = group.compose(g, h)
    assert group.contains(product, tol=1e-10).all()
    identity = group.identity().expand_as(g)
    torch.testing.assert_close(group.compose(group.inverse(g), g), identity, **CLOSE)
    torch.testing.assert_close(
        group.inverse(product), group.compose(group.inverse(h), group.inverse(g)), **CLOSE
    )


def test_generators_exponentiate_into_the_group(group):
    basis = group.generators()
    weights = 0.4 * torch.randn(20, len(basis), dtype=torch.float64, generator=generator())
    x = torch.einsum("kd,dij->kij", weights, basis)
    assert group.contains(group.exp(x), tol=1e-11).all()
    assert torch.linalg.matrix_rank(basis.flatten(1)) == len(basis)


def test_generators_are_closed_under_brackets(group):
    basis = group.generators()
    brackets = torch.einsum("aij,bjk->abik", basis, basis)
    brackets = (brackets - brackets.transpose(0, 1)).flatten(2).flatten(0, 1)
    spanned = torch.cat([basis.flatten(1), brackets])
    assert torch.linalg.matrix_rank(spanned) == len(basis)


def test_generators_are_the_callers_own(group):
    group.generators().fill_(7.0)
    assert (group.generators() != 7.0).any()


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="n must be at least 2, got 1"):
        O(1)
    with pytest.raises(TypeError, match="linear must be a LinearGroup"):
        Affine(3)
    with pytest.raises(TypeError, match="linear must be a LinearGroup"):
        Affine(Affine(O(3)))
    with pytest.raises(ValueError, match=r"elements of O\(3\) are \(..., 3, 3\), got \(2, 2\)"):
        O(3).inverse(torch.eye(2))
    with pytest.raises(ValueError, match="radius must not be negative"):
        GLPlus(2).sample(1, radius=-1.0)
    with pytest.raises(ValueError, match="translations must be"):
        Affine(O(3)).element(torch.eye(3), torch.zeros(2))
