"""What every representation promises, over random combinations of all kinds."""

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.groups import (
    GL,
    SL,
    SO,
    Affine,
    GLPlus,
    Group,
    O,
    Scaling,
    Similarity,
    equidistant_rotations,
)
from equigeo.reps import (
    AltPower,
    Irreps,
    PlanarIrrep,
    Points,
    Regular,
    Representation,
    SymPower,
    TensorRep,
    Trivial,
)
from equigeo.reps.representation import DirectSum, Dual, Kronecker, Restricted
from equigeo.testing import assert_representation
from tests.wrong_inputs import refused

GROUPS: list[Group] = [O(2), O(3), SO(3), SL(2), GLPlus(2), GLPlus(3), GL(2), Similarity(3)]
GROUPS += [Scaling(2), Affine(GLPlus(2)), Affine(O(3))]


def atoms(group: Group) -> st.SearchStrategy[Representation]:
    """Small representations of one group."""
    weights = st.sampled_from([0.0, -1.0, 0.5])
    kinds: list[st.SearchStrategy[Representation]] = [
        st.builds(Trivial, st.just(group), st.integers(0, 2)),
        st.builds(TensorRep, st.just(group), st.integers(0, 1), st.integers(0, 1), weights),
    ]
    vectors = st.just(TensorRep(group))
    kinds.append(st.builds(SymPower, vectors, st.integers(1, 3)))
    kinds.append(st.builds(AltPower, vectors, st.integers(1, 3)))
    if group.maps_to(O(3)):
        texts = st.sampled_from(["1o", "0o+1e", "2x1o+0e", "2e", ""])
        layouts = st.sampled_from(["mul_ir", "ir_mul"])
        kinds.append(st.builds(Irreps, texts, layouts).map(lambda rep: rep.restrict(group)))
    if group in (O(2), SO(2)):
        kinds.append(st.builds(PlanarIrrep, st.just(group), st.integers(0, 3)))
    return st.one_of(kinds)


def representations(group: Group) -> st.SearchStrategy[Representation]:
    return st.recursive(
        atoms(group),
        lambda inner: st.one_of(
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, b: a @ b, inner, inner),
            inner.map(lambda rep: rep.dual()),
            inner.map(Dual),
        ),
        max_leaves=3,
    ).filter(lambda rep: rep.dim <= 60)


ANY = st.sampled_from(GROUPS).flatmap(representations)


def elements(group: Group, seed: int = 0) -> torch.Tensor:
    return group.testing_elements(torch.Generator().manual_seed(seed))


def features(rep: Representation) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 1, rep.dim, dtype=torch.float64, generator=generator)


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    scale = max(1.0, float(b.abs().max()) if b.numel() else 1.0)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-10 * scale)


@given(ANY)
def test_representations_obey_the_laws(rep):
    assert_representation(rep)
    assert rep.generators().shape == (len(rep.group.generators()), rep.dim, rep.dim)
    assert rep.act(elements(rep.group)[0], features(rep)[0, 0].float()).dtype == torch.float32


@given(ANY)
def test_pairing_with_the_dual_is_invariant(rep):
    g, x = elements(rep.group), features(rep)
    y = torch.cos(3 * x)
    paired = (rep.act(g, x) * rep.dual().act(g, y)).sum(-1)
    close(paired, (x * y).sum(-1).expand_as(paired))


@given(ANY)
def test_inverse_matrices_and_characters(rep):
    g, h = elements(rep.group), elements(rep.group, 1).flip(0)
    identity = torch.eye(rep.dim, dtype=torch.float64).expand(len(g), -1, -1)
    close(rep.inverse_matrix(g) @ rep.matrix(g), identity)
    conjugate = rep.group.compose(rep.group.compose(h, g), rep.group.inverse(h))
    close(rep.character(conjugate), rep.character(g))
    close(rep.character(rep.group.identity()), torch.tensor(float(rep.dim)).double())


@given(ANY)
def test_orthogonal_means_that_lengths_are_kept(rep):
    g, x = elements(rep.group, 5), features(rep)
    lengths = rep.act(g, x).square().sum(-1)
    # far above rounding and far below what elements do that stretch by percents
    assert rep.is_orthogonal() == torch.allclose(lengths, x.square().sum(-1), rtol=1e-8)


@given(ANY)
def test_summands_are_blocks_of_the_matrices(rep):
    g = elements(rep.group)
    blocks = torch.zeros_like(rep.matrix(g))
    for part, positions in rep.summands():
        assert part.group == rep.group
        for place in positions:
            blocks[:, place[:, None], place] = part.matrix(g)
    close(rep.matrix(g), blocks)
    places = [place for part in rep.summands() for place in part.positions.flatten().tolist()]
    assert sorted(places) == list(range(rep.dim))


def test_copies_are_a_direct_sum():
    vector = TensorRep(SL(2))
    assert 3 * vector == vector * 3 == vector + vector + vector
    assert 1 * vector == vector
    assert [len(part.positions) for part in (3 * vector + Trivial(SL(2), 2)).summands()] == [3, 2]
    for copies in (0, -1):
        with pytest.raises(ValueError, match=f"at least one copy of .*, got {copies}"):
            copies * vector
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        1.5 * vector


def test_permutations_are_orthogonal_and_points_are_not():
    assert Regular(equidistant_rotations(4)).is_orthogonal()
    assert not Points(O(3)).is_orthogonal()


@given(ANY)
def test_representations_are_values(rep):
    copies = {rep, eval(repr(rep)), copy.deepcopy(rep), pickle.loads(pickle.dumps(rep))}
    assert len(copies) == 1
    with pytest.raises(AttributeError):
        rep.dim = 3


@given(ANY)
def test_trivial_means_that_nothing_moves(rep):
    g, x = elements(rep.group, 5), features(rep)
    moved = rep.act(g, x)
    same = torch.allclose(moved, x.expand_as(moved), atol=1e-8)  # or moves by percents
    assert rep.is_trivial() == same


@given(st.sampled_from([O(3), GLPlus(3)]).flatmap(representations))
def test_restriction_keeps_the_matrices(rep):
    for subgroup in (SO(3), Affine(SO(3))):
        g = elements(subgroup)
        restricted = rep.restrict(subgroup)
        assert restricted.group == subgroup
        close(restricted.matrix(g), rep.matrix(subgroup.convert(g, rep.group)))
        close(restricted.act(g, features(rep)), rep.act(g[:, :3, :3], features(rep)))


@given(st.sampled_from(GROUPS).flatmap(lambda g: st.tuples(*[representations(g)] * 3)))
def test_sums_and_products_are_associative_with_known_dimensions(reps):
    a, b, c = reps
    assert a + (b + c) == (a + b) + c
    assert (a + b).dim == a.dim + b.dim
    assert (a @ b).dim == a.dim * b.dim
    assert (a @ b) @ c == a @ (b @ c)


def test_affine_actions_are_not_combined_linearly():
    points, vector = Points(Affine(O(3))), TensorRep(Affine(O(3)))
    for combine in (
        lambda: points + vector,
        lambda: vector @ points,
        lambda: points.dual(),
        lambda: Restricted(points, SO(3)),
    ):
        with pytest.raises(TypeError, match=r"needs linear parts, got Points"):
            combine()


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"parts of one group, got O\(3\) and SO\(3\); use restr"):
        Irreps("1o") + TensorRep(SO(3))
    with pytest.raises(TypeError, match="made of representations, got 'one'"):
        Irreps("1o") @ "one"
    refused("at least one part", DirectSum, ())
    refused("at least one part", Kronecker, ())
    refused("up and down must not be negative", TensorRep, O(3), up=-1)
    refused("dim must not be negative", Trivial, O(3), -1)
    for rep in (TensorRep(O(3)), Trivial(O(3), 2), Irreps("1o"), Irreps("1o").restrict(SO(3))):
        refused("canonical map", rep.restrict, GLPlus(3))
    for rep in (TensorRep(O(3)), Trivial(O(3), 3), Irreps("1o"), Points(O(3))):
        refused(r"elements of O\(3\) are", rep.act, torch.eye(4), torch.zeros(3))
        with pytest.raises(ValueError, match=r"features of .* are \(\.\.\., 3\), got \(2,\)"):
            rep.act(torch.eye(3), torch.zeros(2))
