"""What every representation promises, over random combinations of all kinds."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.groups import GL, SL, SO, Affine, GLPlus, Group, O, Scaling, Similarity
from equigeo.reps import (
    AltPower,
    DirectSum,
    Dual,
    Irreps,
    Kronecker,
    Points,
    Representation,
    Restricted,
    SymPower,
    TensorRep,
    Trivial,
)

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
EXAMPLES = settings(max_examples=60, deadline=None)


def elements(group: Group, seed: int = 0) -> torch.Tensor:
    return group.testing_elements(torch.Generator().manual_seed(seed))


def features(rep: Representation) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 1, rep.dim, dtype=torch.float64, generator=generator)


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    scale = max(1.0, float(b.abs().max()) if b.numel() else 1.0)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-10 * scale)


@EXAMPLES
@given(ANY)
def test_matrices_are_a_homomorphism(rep):
    g, h = elements(rep.group), elements(rep.group, 1).flip(0)
    close(rep.matrix(g @ h), rep.matrix(g) @ rep.matrix(h))
    identity = torch.eye(rep.dim, dtype=torch.float64)
    close(rep.matrix(rep.group.identity()), identity)


@EXAMPLES
@given(ANY)
def test_acting_is_multiplying_by_the_matrix(rep):
    g, x = elements(rep.group), features(rep)
    close(rep.act(g, x), (rep.matrix(g) @ x[..., None])[..., 0])
    assert rep.act(g[0], x[0, 0].float()).dtype == torch.float32


@EXAMPLES
@given(ANY)
def test_generators_exponentiate_to_the_matrices(rep):
    x = 0.4 * rep.group.generators()
    assert rep.generators().shape == (len(x), rep.dim, rep.dim)
    close(torch.linalg.matrix_exp(0.4 * rep.generators()), rep.matrix(rep.group.exp(x)))


@EXAMPLES
@given(ANY)
def test_pairing_with_the_dual_is_invariant(rep):
    g, x = elements(rep.group), features(rep)
    y = torch.cos(3 * x)
    paired = (rep.act(g, x) * rep.dual().act(g, y)).sum(-1)
    close(paired, (x * y).sum(-1).expand_as(paired))


@EXAMPLES
@given(ANY)
def test_representations_are_values(rep):
    copies = {rep, eval(repr(rep)), copy.deepcopy(rep), pickle.loads(pickle.dumps(rep))}
    assert len(copies) == 1
    with pytest.raises(AttributeError):
        rep.dim = 3


@EXAMPLES
@given(ANY)
def test_trivial_means_that_nothing_moves(rep):
    g, x = elements(rep.group, 5), features(rep)
    moved = rep.act(g, x)
    same = torch.allclose(moved, x.expand_as(moved), atol=1e-8)
    assert rep.is_trivial() == same


@EXAMPLES
@given(st.sampled_from([O(3), GLPlus(3)]).flatmap(representations))
def test_restriction_keeps_the_matrices(rep):
    for subgroup in (SO(3), Affine(SO(3))):
        g = elements(subgroup)
        restricted = rep.restrict(subgroup)
        assert restricted.group == subgroup
        close(restricted.matrix(g), rep.matrix(subgroup.convert(g, rep.group)))
        close(restricted.act(g, features(rep)), rep.act(g[:, :3, :3], features(rep)))


@EXAMPLES
@given(st.sampled_from(GROUPS).flatmap(lambda g: st.tuples(*[representations(g)] * 3)))
def test_sums_and_products_are_associative_with_known_dimensions(reps):
    a, b, c = reps
    assert a + (b + c) == (a + b) + c
    assert (a + b).dim == a.dim + b.dim
    assert (a @ b).dim == a.dim * b.dim
    assert (a @ b) @ c == a @ (b @ c)


def test_the_first_factor_is_slowest():
    a, b = Irreps("1o"), Irreps("0e+2e")
    g = elements(O(3))
    want = torch.stack([torch.kron(p, q) for p, q in zip(a.matrix(g), b.matrix(g), strict=True)])
    close((a @ b).matrix(g), want)
    x, y = torch.arange(3.0), torch.arange(6.0)
    together = (a @ b).act(g, torch.outer(x, y).flatten())
    moved = (a.act(g, x)[:, :, None] * b.act(g, y)[:, None]).flatten(1)
    torch.testing.assert_close(together, moved, rtol=1e-5, atol=1e-5)


def test_sums_stand_side_by_side():
    rep = TensorRep(SL(2)) + Trivial(SL(2), 1)
    shear = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    assert rep.act(shear, torch.tensor([1.0, 1.0, 5.0])).tolist() == [3.0, 1.0, 5.0]
    assert rep.matrix(shear).tolist() == [[1, 2, 0], [0, 1, 0], [0, 0, 1]]


def test_orthogonal_tensors_are_irreps():
    g = elements(O(3))
    close(TensorRep(O(3)).matrix(g), Irreps("1o").matrix(g))
    close(TensorRep(O(3), up=0, down=1).matrix(g), Irreps("1o").matrix(g))
    trace = TensorRep(O(3), up=2).matrix(g).diagonal(dim1=1, dim2=2).sum(-1)
    parts = Irreps("0e+1e+2e").matrix(g).diagonal(dim1=1, dim2=2).sum(-1)
    close(trace, parts)


def test_tensor_oracles():
    g = torch.tensor([[1.2, 0.4], [-0.3, 0.9]], dtype=torch.float64)
    group = GLPlus(2)
    h = math.sqrt(0.5)
    basis = torch.tensor([[1, 0, 0, 0], [0, h, h, 0], [0, 0, 0, 1]], dtype=torch.float64)
    squares = basis @ TensorRep(group, up=2).matrix(g) @ basis.T
    want = [
        [1.44, 0.678822509939, 0.16],
        [-0.509116882454, 0.96, 0.509116882454],
        [0.09, -0.381837661841, 0.81],
    ]
    torch.testing.assert_close(squares, g.new_tensor(want), rtol=0, atol=1e-11)
    close(TensorRep(group, up=0, density=2.0).matrix(g), g.new_tensor([[1.44]]))
    close(TensorRep(group, up=0, down=1).matrix(g), torch.linalg.inv(g).T)
    close(TensorRep(group, 1, 1).matrix(g), torch.kron(g, torch.linalg.inv(g).T.contiguous()))


def test_power_oracles():
    g = torch.tensor([[1.2, 0.4], [-0.3, 0.9]], dtype=torch.float64)
    squares = SymPower(TensorRep(GLPlus(2)), 2).matrix(g)
    want = [
        [1.44, 0.678822509939, 0.16],
        [-0.509116882454, 0.96, 0.509116882454],
        [0.09, -0.381837661841, 0.81],
    ]
    torch.testing.assert_close(squares, g.new_tensor(want), rtol=0, atol=1e-11)
    assert float(torch.linalg.det(squares)) == pytest.approx(1.2**3, abs=1e-12)
    assert float(squares.trace()) == pytest.approx(3.21, abs=1e-12)
    close(AltPower(TensorRep(GLPlus(2)), 2).matrix(g), g.new_tensor([[1.2]]))

    rows = [[1.1, 0.2, -0.1], [-0.3, 0.9, 0.25], [0.15, -0.05, 1.3]]
    g = torch.tensor(rows, dtype=torch.float64)
    vector, det = TensorRep(GLPlus(3)), torch.linalg.det(g)
    squares, areas = SymPower(vector, 2).matrix(g), AltPower(vector, 2).matrix(g)
    values = torch.stack(
        [torch.linalg.det(squares), torch.linalg.det(areas), squares.trace(), areas.trace()]
    )
    want = g.new_tensor([3.822427984997, 1.955103062500, 7.2125, 3.6775])
    torch.testing.assert_close(values, want, rtol=0, atol=1e-11)
    close(torch.stack([det**4, det**2]), values[:2])
    close(areas, det * torch.linalg.inv(g).T)
    close(AltPower(vector, 3).matrix(g), det[None, None])
    assert [SymPower(vector, k).dim for k in (1, 2, 3, 4)] == [3, 6, 10, 15]
    assert AltPower(vector, 4).dim == 0


def test_powers_of_rotations_are_irreps():
    g = elements(O(3))
    for rep, text in [
        (SymPower(TensorRep(O(3)), 2), "0e+2e"),
        (SymPower(TensorRep(O(3)), 3), "1o+3o"),
        (AltPower(TensorRep(O(3)), 2), "1e"),
        (AltPower(TensorRep(O(3)), 3), "0o"),
    ]:
        trace, want = (r.matrix(g).diagonal(dim1=1, dim2=2).sum(-1) for r in (rep, Irreps(text)))
        close(trace, want)
    close(AltPower(TensorRep(O(3)), 2).matrix(g), Irreps("1e").matrix(g))


def test_powers_need_a_linear_factor():
    with pytest.raises(ValueError, match="power must be at least 1, got 0"):
        SymPower(TensorRep(GL(2)), 0)
    with pytest.raises(TypeError, match="a tensor power needs linear parts"):
        AltPower(Points(GL(2)), 2)


def test_cross_products_of_vectors_are_covectors_of_density_one():
    g = GLPlus(3).sample(6, generator=torch.Generator().manual_seed(0))
    vector, density = TensorRep(GLPlus(3)), TensorRep(GLPlus(3), up=0, down=1, density=1.0)
    a, b = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    got = torch.linalg.cross(vector.act(g, a), vector.act(g, b))
    close(got, density.act(g, torch.linalg.cross(a, b)))


def test_densities_are_positive_under_reflections():
    mirror = torch.diag(torch.tensor([-2.0, 1.0]))
    assert TensorRep(GL(2), up=0, density=1.0).act(mirror, torch.ones(1)).tolist() == [2.0]
    assert not TensorRep(GL(2), up=0, density=1.0).is_trivial()
    assert TensorRep(O(2), up=0, density=1.0).is_trivial()


def test_simple_duals_stay_simple():
    group = GLPlus(3)
    assert TensorRep(group, 2, 0, 0.5).dual() == TensorRep(group, 0, 2, -0.5)
    assert isinstance(TensorRep(group, 1, 1).dual(), Dual)
    assert TensorRep(group, 1, 1).dual().dual() == TensorRep(group, 1, 1)
    assert Irreps("1o").dual() == Irreps("1o")
    assert Trivial(group, 2).dual() == Trivial(group, 2)


def test_points_move_and_vectors_only_turn():
    group = Affine(GLPlus(2))
    g = group.element(torch.diag(torch.tensor([2.0, 1.0])), torch.tensor([10.0, 20.0]))
    points = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert Points(group).act(g, points).tolist() == [[12.0, 21.0], [10.0, 20.0]]
    assert TensorRep(group).act(g, points).tolist() == [[2.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("group", [Affine(O(3)), Affine(GLPlus(2)), O(3), SL(2)], ids=str)
def test_points_obey_homogeneous_matrices(group):
    rep = Points(group)
    g, h = elements(group), elements(group, 1).flip(0)
    close(rep.matrix(g @ h), rep.matrix(g) @ rep.matrix(h))
    x = features(rep)
    lifted = torch.cat([x, torch.ones_like(x[..., :1])], -1)
    want = (rep.matrix(g) @ lifted[..., None])[..., :-1, 0]
    close(rep.act(g, x), want)
    close(rep.act(h, rep.act(g, x)), rep.act(h @ g, x))
    exponentials = torch.linalg.matrix_exp(rep.generators())
    close(exponentials, rep.matrix(group.exp(group.generators())))
    assert not rep.is_trivial()
    assert eval(repr(rep)) == rep


def test_points_of_a_smaller_group():
    assert Points(Affine(O(3))).restrict(Affine(SO(3))) == Points(Affine(SO(3)))
    assert Points(Affine(O(3))).restrict(SO(3)) == Points(SO(3))
    with pytest.raises(ValueError, match="is not a subgroup"):
        Points(O(3)).restrict(Affine(O(3)))
    with pytest.raises(ValueError, match="is not a subgroup"):
        Points(SO(3)).restrict(O(3))


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
    with pytest.raises(ValueError, match="at least one part"):
        DirectSum(())
    with pytest.raises(ValueError, match="at least one part"):
        Kronecker(())
    with pytest.raises(ValueError, match="up and down must not be negative"):
        TensorRep(O(3), up=-1)
    with pytest.raises(ValueError, match="dim must not be negative"):
        Trivial(O(3), -1)
    for rep in (TensorRep(O(3)), Trivial(O(3), 2), Irreps("1o"), Irreps("1o").restrict(SO(3))):
        with pytest.raises(ValueError, match="canonical map"):
            rep.restrict(GLPlus(3))
    for rep in (TensorRep(O(3)), Trivial(O(3), 3), Irreps("1o"), Points(O(3))):
        with pytest.raises(ValueError, match=r"elements of O\(3\) are"):
            rep.act(torch.eye(4), torch.zeros(3))
        with pytest.raises(ValueError, match=r"features of .* are \(\.\.\., 3\), got \(2,\)"):
            rep.act(torch.eye(3), torch.zeros(2))
