"""Groups are values, and their elements obey the group laws."""

from __future__ import annotations

import math

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


@pytest.mark.parametrize(
    ("kind", "dimensions"),
    [(O, (1, 3)), (SO, (1, 3)), (SL, (3, 8)), (GLPlus, (4, 9)), (Scaling, (1, 1))],
)
def test_dimensions_are_those_of_the_catalogue(kind, dimensions):
    assert (len(kind(2).generators()), len(kind(3).generators())) == dimensions
    assert len(Affine(kind(3)).generators()) == dimensions[1] + 3


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


def test_haar_moments_of_rotations():
    trace = SO(3).haar(200_000, generator=generator()).diagonal(dim1=1, dim2=2).sum(-1)
    moments = [float((trace**k).mean()) for k in (1, 2, 3, 4)]
    # closed forms 0, 1, 1, 3; five standard errors
    assert moments == pytest.approx([0, 1, 1, 3], abs=5 * 9 / math.sqrt(200_000))
    angle = torch.arccos(((trace - 1) / 2).clamp(-1, 1)).mean()
    assert float(angle) == pytest.approx(math.pi / 2 + 2 / math.pi, abs=0.01)


def test_haar_measure_is_invariant_under_translation():
    g = O(2).haar(100_000, generator=generator())
    assert float(g.mean(0).abs().max()) < 0.02
    assert float((torch.linalg.det(g) > 0).double().mean()) == pytest.approx(0.5, abs=0.01)


def test_exponential_oracles():
    x = torch.tensor([[0.3, -0.5], [0.2, 0.1]], dtype=torch.float64)
    want = [[1.287167021292, -0.601581992514], [0.240632797005, 1.046534224286]]
    torch.testing.assert_close(GLPlus(2).exp(x), x.new_tensor(want), rtol=0, atol=1e-11)
    lifted = torch.zeros(3, 3, dtype=torch.float64)
    lifted[:2, :2], lifted[:2, 2] = x, x.new_tensor([1.0, 2.0])
    translation = Affine(GLPlus(2)).exp(lifted)[:2, 2]
    want = x.new_tensor([0.5788532801, 2.1793058955])
    torch.testing.assert_close(translation, want, rtol=0, atol=1e-9)


def test_rodrigues_oracle_fixes_the_order_of_the_generators():
    omega = torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64)
    x = torch.einsum("d,dij->ij", omega, SO(3).generators())
    want = [
        [0.935754803278, -0.302932713403, -0.180540076694],
        [0.283164960565, 0.950580617906, -0.127334574918],
        [0.210191705951, 0.068031316405, 0.975290308953],
    ]
    torch.testing.assert_close(SO(3).exp(x), x.new_tensor(want), rtol=0, atol=1e-11)


def test_affine_elements_act_before_they_translate():
    group = Affine(GL(2))
    g = group.element(2 * torch.eye(2), torch.tensor([1.0, 3.0]))
    assert g.tolist() == [[2, 0, 1], [0, 2, 3], [0, 0, 1]]
    assert group.element(torch.eye(2).expand(4, 1, 2, 2), torch.zeros(5, 2)).shape == (4, 5, 3, 3)


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


def test_compact_groups_alone_have_a_uniform_distribution():
    assert {kind for kind in KINDS if hasattr(kind, "haar")} == {O, SO}
