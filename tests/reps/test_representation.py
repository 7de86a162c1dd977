"""Laws of representations over random combinations, and values of each kind."""

import copy
import math
import operator
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
from equigeo.groups.sampling import signed_permutations
from equigeo.reps import (
    AltPower,
    Field,
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
from equigeo.testing import assert_representation, tolerance
from tests.draws import generator, random
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
    return group.testing_elements(generator(seed))


def features(rep: Representation) -> torch.Tensor:
    return random(3, 1, rep.dim)


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
    vector, one = TensorRep(SL(2)), Trivial(SL(2), 1)
    assert 3 * vector == vector * 3 == vector + vector + vector
    assert 1 * vector == vector
    assert [len(part.positions) for part in (3 * vector + 2 * one).summands()] == [3, 2]
    for copies in (0, -1):
        refused(f"at least one copy of .*, got {copies}", operator.mul, copies, vector)
    message = "cannot be interpreted as an integer"
    refused(message, operator.mul, 1.5, vector, error=TypeError)
    rep, shear = vector + one, torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    assert rep.act(shear, torch.tensor([1.0, 1.0, 5.0])).tolist() == [3.0, 1.0, 5.0]
    assert rep.matrix(shear).tolist() == [[1, 2, 0], [0, 1, 0], [0, 0, 1]]


@given(ANY)
def test_representations_are_values(rep):
    copies = {rep, eval(repr(rep)), copy.deepcopy(rep), pickle.loads(pickle.dumps(rep))}
    assert len(copies) == 1
    with pytest.raises(AttributeError):
        rep.dim = 3


@given(ANY)
def test_trivial_and_orthogonal_representations_keep_features_and_lengths(rep):
    g, x = elements(rep.group, 5), features(rep)
    moved = rep.act(g, x)
    # far above rounding and far below what elements do that move by percents
    assert rep.is_trivial() == torch.allclose(moved, x.expand_as(moved), atol=1e-8)
    lengths = moved.square().sum(-1)
    # likewise, of stretches
    assert rep.is_orthogonal() == torch.allclose(lengths, x.square().sum(-1), rtol=1e-8)


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


def test_bad_arguments_raise():
    vector, points = Irreps("1o"), Points(Affine(O(3)))
    message = r"parts of one group, got O\(3\) and SO\(3\); use restr"
    refused(message, operator.add, vector, TensorRep(SO(3)))
    message = "made of representations, got 'one'"
    refused(message, operator.matmul, vector, "one", error=TypeError)
    affine = TensorRep(Affine(O(3)))
    for combine, *parts in (
        (operator.add, points, affine),
        (operator.matmul, affine, points),
        (points.dual,),
        (Restricted, points, SO(3)),
        (AltPower, Points(GL(2)), 2),
    ):
        refused("needs linear parts", combine, *parts, error=TypeError)
    refused("power must be at least 1, got 0", SymPower, TensorRep(GL(2)), 0)
    refused("at least one part", DirectSum, ())
    refused("at least one part", Kronecker, ())
    refused("up and down must not be negative", TensorRep, O(3), up=-1)
    refused("dim must not be negative", Trivial, O(3), -1)
    for rep in (TensorRep(O(3)), Trivial(O(3), 2), vector, vector.restrict(SO(3))):
        refused("canonical map", rep.restrict, GLPlus(3))
    for rep in (TensorRep(O(3)), Trivial(O(3), 3), vector, Points(O(3))):
        refused(r"elements of O\(3\) are", rep.act, torch.eye(4), torch.zeros(3))
        message = r"features of .* are \(\.\.\., 3\), got \(2,\)"
        refused(message, rep.act, torch.eye(3), torch.zeros(2))
    refused("is not a subgroup", Points(O(3)).restrict, Affine(O(3)))
    refused("is not a subgroup", Points(SO(3)).restrict, O(3))
    refused(r"group must be SO\(2\) or O\(2\), got SL\(2\)", PlanarIrrep, SL(2), 1)
    refused("frequency must not be negative, got -1", PlanarIrrep, SO(2), -1)
    refused(r"parity of frequency 0 of SO\(2\) must be one of \(1,\)", PlanarIrrep, SO(2), 0, -1)
    refused(r"parity of frequency 2 of O\(2\) .* got -1", PlanarIrrep, O(2), 2, -1)


def test_orthogonal_tensors_and_powers_are_irreps():
    g, vector = elements(O(3)), TensorRep(O(3))
    for rep, text in [
        (vector, "1o"),
        (TensorRep(O(3), up=0, down=1), "1o"),
        (AltPower(vector, 2), "1e"),
    ]:
        close(rep.matrix(g), Irreps(text).matrix(g))
    for rep, text in [
        (TensorRep(O(3), up=2), "0e+1e+2e"),
        (SymPower(vector, 2), "0e+2e"),
        (SymPower(vector, 3), "1o+3o"),
        (AltPower(vector, 2), "1e"),
        (AltPower(vector, 3), "0o"),
    ]:
        trace, want = (r.matrix(g).diagonal(dim1=1, dim2=2).sum(-1) for r in (rep, Irreps(text)))
        close(trace, want)


def test_tensor_oracles():
    g = torch.tensor([[1.2, 0.4], [-0.3, 0.9]], dtype=torch.float64)
    group, h = GLPlus(2), math.sqrt(0.5)
    basis = torch.tensor([[1, 0, 0, 0], [0, h, h, 0], [0, 0, 0, 1]], dtype=torch.float64)
    squares = basis @ TensorRep(group, up=2).matrix(g) @ basis.T
    close(squares, SymPower(TensorRep(group), 2).matrix(g))
    close(TensorRep(group, up=0, density=2.0).matrix(g), g.new_tensor([[1.44]]))
    close(TensorRep(group, up=0, down=1).matrix(g), torch.linalg.inv(g).T)
    close(TensorRep(group, 1, 1).matrix(g), torch.kron(g, torch.linalg.inv(g).T.contiguous()))
    density, mirror = TensorRep(GL(2), up=0, density=1.0), torch.diag(torch.tensor([-2.0, 1.0]))
    assert density.act(mirror, torch.ones(1)).tolist() == [2.0]
    assert not density.is_trivial()
    assert TensorRep(O(2), up=0, density=1.0).is_trivial()


def test_cross_products_of_vectors_are_covectors_of_density_one():
    g, (a, b) = GLPlus(3).sample(6, generator=generator()), random(2, 3, seed=1)
    vector, density = TensorRep(GLPlus(3)), TensorRep(GLPlus(3), up=0, down=1, density=1.0)
    got = torch.linalg.cross(vector.act(g, a), vector.act(g, b))
    close(got, density.act(g, torch.linalg.cross(a, b)))


def test_power_oracles():
    g = torch.tensor([[1.2, 0.4], [-0.3, 0.9]], dtype=torch.float64)
    squares = SymPower(TensorRep(GLPlus(2)), 2).matrix(g)
    want = [
        [1.44, 0.678822509939, 0.16],
        [-0.509116882454, 0.96, 0.509116882454],
        [0.09, -0.381837661841, 0.81],
    ]
    # half a unit of the twelfth decimal, the last that is given
    torch.testing.assert_close(squares, g.new_tensor(want), rtol=0, atol=5.1e-13)
    bound = tolerance(torch.float64, 6)["atol"]
    assert float(torch.linalg.det(squares)) == pytest.approx(1.2**3, abs=bound)
    assert float(squares.trace()) == pytest.approx(3.21, abs=bound)
    close(AltPower(TensorRep(GLPlus(2)), 2).matrix(g), g.new_tensor([[1.2]]))

    rows = [[1.1, 0.2, -0.1], [-0.3, 0.9, 0.25], [0.15, -0.05, 1.3]]
    g = torch.tensor(rows, dtype=torch.float64)
    vector, det = TensorRep(GLPlus(3)), torch.linalg.det(g)
    squares, areas = SymPower(vector, 2).matrix(g), AltPower(vector, 2).matrix(g)
    values = torch.stack(
        [torch.linalg.det(squares), torch.linalg.det(areas), squares.trace(), areas.trace()]
    )
    want = g.new_tensor([3.822427984997, 1.955103062500, 7.2125, 3.6775])
    # likewise
    torch.testing.assert_close(values, want, rtol=0, atol=5.1e-13)
    close(torch.stack([det**4, det**2]), values[:2])
    close(areas, det * torch.linalg.inv(g).T)
    close(AltPower(vector, 3).matrix(g), det[None, None])
    assert [SymPower(vector, k).dim for k in (1, 2, 3, 4)] == [3, 6, 10, 15]
    assert AltPower(vector, 4).dim == 0


def test_the_first_factor_is_slowest():
    a, b = Irreps("1o"), Irreps("0e+2e")
    g = elements(O(3))
    want = torch.stack([torch.kron(p, q) for p, q in zip(a.matrix(g), b.matrix(g), strict=True)])
    close((a @ b).matrix(g), want)
    x, y = torch.arange(3.0), torch.arange(6.0)
    together = (a @ b).act(g, torch.outer(x, y).flatten())
    moved = (a.act(g, x)[:, :, None] * b.act(g, y)[:, None]).flatten(1)
    torch.testing.assert_close(together, moved, **tolerance(torch.float32, 18))


def test_points_move_and_vectors_only_turn():
    group = Affine(GLPlus(2))
    g = group.element(torch.diag(torch.tensor([2.0, 1.0])), torch.tensor([10.0, 20.0]))
    points = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert Points(group).act(g, points).tolist() == [[12.0, 21.0], [10.0, 20.0]]
    assert TensorRep(group).act(g, points).tolist() == [[2.0, 1.0], [0.0, 0.0]]
    assert Points(Affine(O(3))).restrict(Affine(SO(3))) == Points(Affine(SO(3)))
    assert Points(Affine(O(3))).restrict(SO(3)) == Points(SO(3))
    assert not Points(O(3)).is_orthogonal()
    assert Regular(equidistant_rotations(4)).is_orthogonal()


@pytest.mark.parametrize("group", [Affine(O(3)), Affine(GLPlus(2)), O(3), SL(2)], ids=str)
def test_points_obey_homogeneous_matrices(group):
    rep, g = Points(group), elements(group)
    assert_representation(rep)
    x = features(rep)
    lifted = torch.cat([x, torch.ones_like(x[..., :1])], -1)
    close(rep.act(g, x), (rep.matrix(g) @ lifted[..., None])[..., :-1, 0])
    assert not rep.is_trivial()
    assert eval(repr(rep)) == rep


def test_simple_duals_stay_simple():
    group = GLPlus(3)
    assert TensorRep(group, 2, 0, 0.5).dual() == TensorRep(group, 0, 2, -0.5)
    assert isinstance(TensorRep(group, 1, 1).dual(), Dual)
    assert TensorRep(group, 1, 1).dual().dual() == TensorRep(group, 1, 1)
    assert Irreps("1o").dual() == Irreps("1o")
    assert Trivial(group, 2).dual() == Trivial(group, 2)


PLANAR = [PlanarIrrep(group, k) for group in (SO(2), O(2)) for k in range(5)]


@pytest.mark.parametrize("rep", [*PLANAR, PlanarIrrep(O(2), 0, -1)], ids=str)
def test_irreps_of_the_plane_are_representations(rep):
    assert_representation(rep)
    assert rep.is_orthogonal()
    assert rep.dual() == eval(repr(rep)) == rep
    assert rep.is_trivial() == (rep.frequency == 0 and rep.parity == 1)
    if k := rep.frequency:  # powers of a point move as their frequency says
        g, point = elements(rep.group), torch.tensor([0.6, -0.8], dtype=torch.float64)
        power, moved = (torch.complex(*x.unbind(-1)) ** k for x in (point, g @ point))
        want = rep.act(g, torch.view_as_real(power))
        torch.testing.assert_close(torch.view_as_real(moved), want, **tolerance(torch.float64, 16))


@pytest.mark.parametrize("n", [2, 3])
def test_fields_move_without_error_under_symmetries_of_the_grid(n):
    table = signed_permutations(n)
    g, h = table[torch.randint(len(table), (2, 6), generator=generator())]
    rep, x = Field(TensorRep(O(n))), random(6, 2 * n, *[5] * n)
    assert torch.equal(rep.act(g @ h, x), rep.act(g, rep.act(h, x)))
    assert torch.equal(rep.act(torch.linalg.inv(g), rep.act(g, x)), x)
    # A bright pixel lies where its position is moved to, with a vector that is moved as well.
    bright = torch.zeros(2 * n, *[5] * n)
    place, vector = torch.arange(1.0 - n, 1.0), torch.arange(2.0 * n)
    bright[(slice(None), *(place.long() + 2))] = vector
    for each in g.float():
        moved = rep.act(each, bright)
        seen = moved[(slice(None), *((each @ place).long() + 2))]
        assert torch.equal(seen, (vector.view(2, n) @ each.mT).flatten())
        assert int(moved.count_nonzero()) == 2 * n - 1


@pytest.mark.parametrize("n", [2, 3])
def test_fields_are_interpolated_elsewhere(n):
    axis = torch.arange(24.0) - 11.5
    place = torch.stack(torch.meshgrid(*[axis] * n, indexing="ij"), -1)
    center = torch.tensor([4.0, -3.0, 2.0])[:n]
    blob = torch.exp(-(place - center).square().sum(-1) / 8)[None]
    g = SO(n).haar(3, generator=generator())
    rep = Field(Trivial(SO(n), 1))
    moved = rep.act(g, blob.expand(3, 1, *blob.shape[1:]))
    for each, image in zip(g.float(), moved, strict=True):
        want = torch.exp(-(place - each @ center).square().sum(-1) / 8)[None]
        assert float((image - want).abs().max()) < (0.03 if n == 2 else 0.1)  # linear in space
    # Elements that differ by a symmetry and rounding interpolate at the same places.
    symmetry = signed_permutations(n)[3]
    turned = rep.act(g[0], rep.act(symmetry, blob))
    assert torch.equal(rep.act(g[0] @ symmetry + 1e-14, blob), turned)
    if n == 2:  # an eighth of a turn, which is as far from two symmetries
        h = equidistant_rotations(8).h
        assert torch.equal(rep.act(h[3], blob), rep.act(h[1], rep.act(h[2], blob)))
        assert torch.equal(rep.act(h[7], blob), rep.act(h[1], rep.act(h[6], blob)))


def test_fields_take_any_batch_and_precision():
    rep, quarter = Field(Trivial(SO(2), 1)), equidistant_rotations(8).h
    x = random(4, 1, 3, 6, 6)
    found = rep.act(quarter, x)
    assert found.shape == (4, 8, 3, 6, 6)
    torch.testing.assert_close(found[1, 3], rep.act(quarter[3], x[1, 0]))
    assert rep.act(quarter[1], x.half()).dtype == torch.float16
    assert rep.act(quarter[1], x[:0]).shape == (0, 1, 3, 6, 6)
    y = random(1, 4, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda y: rep.act(quarter[:2], y[None]), y)
    assert rep.restrict(SO(2)) == rep
    assert not rep.is_trivial()
    refused("interpolates and has no matrices", rep.matrix, quarter, error=TypeError)
    refused("needs linear parts", lambda: rep + rep, error=TypeError)
    refused("need a linear representation", Field, Points(O(2)), error=TypeError)
    refused("linear in 2 or 3 dimensions", Field, Trivial(Affine(O(2)), 1))
    vectors = Field(TensorRep(O(2)))
    refused(r"fields must be \(..., copies \* 2, size, size\)", vectors.act, quarter[0], x)
    refused("fields must be floating", rep.act, quarter[0], x.long(), error=TypeError)
    refused(r"size, size\), got \(1, 4, 5\)", rep.act, quarter[0], random(1, 4, 5))
