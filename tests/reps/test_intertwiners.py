"""All equivariant maps: as many as the theory knows, in a unique basis; decompositions."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import combinations
from typing import NamedTuple

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.groups import GL, SL, SO, Affine, GLPlus, Group, O, equidistant_rotations
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
    decompose,
    intertwiners,
)
from equigeo.reps.intertwiners import (
    equivariant_maps,
    is_isomorphic,
    maps_by_characters,
    maps_by_irreps,
    maps_of_irrep,
    maps_of_summands,
    multiplicities,
    solve_conditions,
    unique_basis,
)
from equigeo.testing import tolerance
from tests.draws import random
from tests.reps.test_representation import representations
from tests.tier import tier
from tests.wrong_inputs import refused

CLOSE, NEAR = tolerance(torch.float64, 256), tolerance(torch.float64, 64)
T = TensorRep


class Case(NamedTuple):
    rep_in: Representation
    rep_out: Representation
    maps: int


def tensors(group: Group) -> list[Representation]:
    """Tensors without lower indices, of rank 0 to 4."""
    return [T(group, up=k) for k in range(5)]


o3, so3, o2, so2 = map(tensors, (O(3), SO(3), O(2), SO(2)))
sl2, gl2, gl3 = map(tensors, (SL(2), GLPlus(2), GLPlus(3)))
# How many maps the theory knows. Invariants of tensors of O(n) and SO(n) are products of the metric
# and of the volume form (Weyl, "The Classical Groups", 1939); those of SL(n) and GL(n) permute
# indices, or are determinants.
CASES = [
    Case(*case)
    for case in (
        # 1, 3, 15 and 105 - 14 pairings of 2, 4, 6 and 8 indices in space; Schur's lemma for irreps
        (Irreps("2x0e+1o"), Irreps("0e+3x1o"), 5),
        (o3[1], o3[1], 1),
        (o3[2], o3[2], 3),
        (o3[2], o3[1], 0),
        (o3[3], o3[1], 3),
        (o3[3], o3[3], 15),
        (o3[4], o3[4], 91),
        (Irreps("1e"), AltPower(o3[1], 2), 1),
        (SymPower(o3[1], 2), Irreps("0e+2e"), 2),
        (o3[2], Irreps("1e+1o"), 1),
        (o3[4], Trivial(O(3), 1), 3),
        # so in all dimensions, but for relations between large ranks; the volume form of SO(4) has
        # four indices
        (T(O(4), 2), T(O(4), 2), 3),
        (T(SO(4), 2), T(SO(4), 2), 4),
        # Riordan numbers 1, 0, 1, 1, 3, 6, 15: the volume form pairs three indices
        (so3[2], so3[1], 1),
        (so3[3], so3[2], 6),
        (Irreps("1o+1e").restrict(SO(3)), so3[1], 2),
        # central binomial coefficients: as many turns one way as the other
        (so2[1], so2[1], 2),
        (so2[2], so2[2], 6),
        (so2[3], so2[3], 20),
        (so2[1], so2[2], 0),
        (PlanarIrrep(SO(2), 2), so2[2], 2),
        (PlanarIrrep(SO(2), 3), PlanarIrrep(SO(2), 2), 0),
        (o2[1], o2[1], 1),
        (o2[2], o2[2], 3),
        (PlanarIrrep(O(2), 0, -1), AltPower(o2[1], 2), 1),
        # Catalan numbers: pairings by areas that do not cross
        (sl2[1], sl2[1], 1),
        (sl2[1], T(SL(2), up=0, down=1), 1),
        (sl2[2], sl2[2], 2),
        (sl2[2], sl2[1], 0),
        (sl2[3], sl2[3], 5),
        (sl2[4], T(SL(2), down=1), 5),
        (SymPower(sl2[1], 3), SymPower(T(SL(2), 0, 1), 3), 1),
        (AltPower(sl2[1], 2), Trivial(SL(2), 2), 2),
        # permutations without a decreasing run longer than n; determinants by densities
        (gl2[1], gl2[1], 1),
        (gl2[1], T(GLPlus(2), 0, 1), 0),
        (gl2[1], T(GLPlus(2), 0, 1, density=1.0), 1),
        (gl2[3], gl2[3], 5),
        (T(GLPlus(2), 2, 1), gl2[1], 2),
        (T(GLPlus(2), 0, 0, 0.5), T(GLPlus(2), 0, 0, 0.25), 0),
        (T(GL(2), 1), T(GL(2), 0, 1, density=1.0), 0),
        (gl3[1], gl3[1], 1),
        (gl3[2], gl3[2], 2),
        (gl3[3], gl3[3], 6),
        (gl3[3], T(GLPlus(3), 0, 0, density=1.0), 1),
        (AltPower(gl3[1], 2), T(GLPlus(3), 0, 1, density=1.0), 1),
        (T(GLPlus(3), 1, 1), T(GLPlus(3), 1, 1), 2),
        (T(GLPlus(4), 2), T(GLPlus(4), 2), 2),
        # translations do not move tensors
        (T(Affine(GLPlus(2))), T(Affine(GLPlus(2))), 1),
        (T(Affine(O(3)), 2), T(Affine(O(3)), 2), 3),
        (T(Affine(SL(2))), T(Affine(SL(2)), 0, 1), 1),
        (T(Affine(SO(2))), T(Affine(SO(2))), 2),
    )
]


def maps_of_tensors(rep_in: TensorRep, rep_out: TensorRep) -> int:
    """Dimension for tensors of SL(n), GL+(n) and GL(n), by Weyl's integration formula.

    Polynomial representations restrict to the unitary group without losing a map; there the
    dimension is the constant term of the characters times the product of ``1 - x_i / x_j``.
    """
    group, x = rep_in.group, sympy.symbols(f"x:{rep_in.group.n}")
    up, down = rep_out.up + rep_in.down, rep_out.down + rep_in.up
    shift = down + len(x)  # of exponents, none of which is negative then
    characters = sum(x) ** up * sum(1 / a for a in x) ** down
    weyl = sympy.prod(1 - a / b for a, b in combinations(x, 2))
    terms = sympy.Poly(sympy.expand(characters * weyl * sympy.prod(x) ** shift), *x).terms()
    # exponents that are all k are the k-th power of the determinant, which is 1 on SL(n)
    powers = {k[0] - shift: int(value) for k, value in terms if len({*k}) == 1}
    if isinstance(group, SL):
        return sum(powers.values())
    weight = rep_in.density - rep_out.density
    if weight != round(weight) or (isinstance(group, GL) and weight % 2):
        return 0  # the density has the absolute value of the determinant
    return powers.get(round(weight), 0)


def error(maps: torch.Tensor, rep_in: Representation, rep_out: Representation) -> float:
    """Largest violation, relative to the matrices, at elements with stretches of up to e^0.9."""
    g = rep_in.group.testing_elements(torch.Generator().manual_seed(7))[:, None]
    left, right = rep_out.matrix(g), rep_in.matrix(g)
    scale = torch.maximum(*(torch.linalg.matrix_norm(x, 2) for x in (left, right)))
    violations = torch.linalg.matrix_norm(left @ maps - maps @ right) / scale
    return float(violations.max()) if len(maps) else 0.0


SMALL = [case for case in CASES if case.rep_in.dim * case.rep_out.dim <= 729]  # of 27 x 27
every_case = partial(pytest.mark.parametrize, "case", ids=lambda c: f"{c.rep_in} -> {c.rep_out}")


@every_case(tier(SMALL, CASES))
def test_dimension_and_error(case):
    maps = intertwiners(case.rep_in, case.rep_out)
    assert maps.shape == (case.maps, case.rep_out.dim, case.rep_in.dim)
    assert error(maps, case.rep_in, case.rep_out) <= 1e-12  # of the table of the theory
    gram = torch.einsum("aij,bij->ab", maps, maps)
    torch.testing.assert_close(gram, torch.eye(case.maps, dtype=torch.float64), **CLOSE)


TENSORS = [
    case
    for case in CASES
    if isinstance(case.rep_in, TensorRep)
    and isinstance(case.rep_out, TensorRep)
    and isinstance(case.rep_in.group, SL | GLPlus | GL)
]


@every_case(TENSORS)
def test_the_table_follows_from_the_theory_of_invariants(case: Case):
    assert maps_of_tensors(case.rep_in, case.rep_out) == case.maps


COMPACT: list[Group] = [O(2), SO(2), O(3), SO(3)]
small = st.sampled_from([*COMPACT, SL(2), GLPlus(2), GL(2), Affine(O(3))])


@given(small.flatmap(lambda g: st.tuples(*[representations(g).filter(lambda r: r.dim < 13)] * 2)))
def test_maps_of_random_sums_commute_and_are_all(reps):
    rep_in, rep_out = reps
    maps = intertwiners(rep_in, rep_out)
    assert error(maps, rep_in, rep_out) <= 1e-12  # of the table of the theory
    # all at once, without the structure of sums and copies
    whole = equivariant_maps(rep_in, rep_out)
    assert len(maps) == len(whole)
    a, b = maps.flatten(1), whole.flatten(1)
    torch.testing.assert_close(a.mT @ a, b.mT @ b, **CLOSE)
    if rep_in.group in COMPACT and rep_in.dim and rep_out.dim:
        by_irreps = maps_by_irreps(rep_in, rep_out)
        assert by_irreps.shape == whole.shape
        torch.testing.assert_close(by_irreps, whole, **CLOSE)


def test_large_tensors_go_by_their_irreps():
    rank, vector = TensorRep(SO(3), up=4), TensorRep(O(3))
    maps = intertwiners(rank, rank)
    assert maps.shape == (91, 81, 81)
    assert error(maps, rank, rank) <= 1e-12  # of the table of the theory
    assert maps_by_characters(vector @ vector, vector @ vector) == 3
    assert maps_by_characters(TensorRep(GLPlus(3)), TensorRep(GLPlus(3))) is None


def test_maps_of_copies_come_in_order_and_are_found_once():
    maps = intertwiners(Irreps("2x0e + 3x1o"), Irreps("1o + 0e"))
    places = [tuple(int(i) for i in m.nonzero()[0]) for m in maps]
    assert places == [(3, 0), (3, 1), (0, 2), (0, 5), (0, 8)]
    columns = intertwiners(Irreps("2x0e + 3x1o", layout="ir_mul"), Irreps("1o"))
    assert [int(m.nonzero()[0][1]) for m in columns] == [2, 3, 4]
    vector = TensorRep(SL(2))
    intertwiners(vector, vector).fill_(7.0)
    assert intertwiners(vector, vector).max() < 1
    assert maps_of_summands(vector, vector) is maps_of_summands(TensorRep(SL(2)), vector)


def test_what_commutes_with_a_subgroup_alone():
    samples = equidistant_rotations(4)
    regular, vector = Regular(samples), TensorRep(SO(2))
    maps = intertwiners(regular, vector, elements=samples.h)
    assert maps.shape == (2, 2, 4)  # of the four frequencies that are told apart, one is that
    refused("has no derivative", intertwiners, regular, vector)


def test_isomorphic_representations():
    vector = TensorRep(O(3))
    assert is_isomorphic(vector, Irreps("1o"))
    assert is_isomorphic(vector @ vector, Irreps("0e + 1e + 2e"))
    assert not is_isomorphic(vector @ vector, Irreps("0e + 1o + 2e"))
    assert not is_isomorphic(vector + vector, Irreps("1o + 1e"))
    assert not is_isomorphic(vector, vector + vector)
    assert is_isomorphic(Irreps(""), Trivial(O(3), 0))


class Inconsistent(Representation):
    """Representation with given matrices and the algebra of vectors."""

    def __init__(self, group: Group, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.group, self.fn, self.dim = group, fn, group.n

    def matrix(self, g: torch.Tensor) -> torch.Tensor:
        return self.fn(g)

    def algebra(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_bad_arguments_raise():
    vector = TensorRep(O(3))
    message = r"parts of one group, got O\(3\) and SO\(3\); use restr"
    refused(message, intertwiners, vector, TensorRep(SO(3)))
    refused(message.split(";")[0], is_isomorphic, vector, TensorRep(SO(3)))
    refused("needs linear parts, got Points", intertwiners, Points(O(3)), vector, error=TypeError)
    refused("made of representations, got '1o'", intertwiners, "1o", vector, error=TypeError)
    refused(r"elements of O\(3\) are", intertwiners, vector, vector, elements=torch.eye(2)[None])
    refused(r"irreps are known of O\(2\), SO\(2\), .* got SL\(2\)", decompose, TensorRep(SL(2)))
    refused(r"got Affine\(O\(3\)\); use restrict", decompose, TensorRep(Affine(O(3))))
    refused("needs linear parts", decompose, Points(O(3)), error=TypeError)
    twice = Inconsistent(SO(2), lambda g: g @ g)
    message = "2 features, but irreps of dimension 0"
    refused(message, intertwiners, twice, TensorRep(SO(2)), error=ArithmeticError)
    stretched = Inconsistent(O(3), lambda g: 1.3 * g)
    message = r"must be a whole number, got 1\.(3|29)"
    refused(message, multiplicities, stretched, error=ArithmeticError)


def test_no_features_have_no_maps():
    vector, nothing = TensorRep(O(3)), Irreps("")
    assert intertwiners(nothing, vector).shape == (0, 3, 0)
    assert intertwiners(vector, Trivial(O(3), 4)).shape == (0, 4, 3)
    assert equivariant_maps(nothing, Irreps("1o")).shape == (0, 3, 0)
    assert equivariant_maps(TensorRep(GL(2)), TensorRep(GL(2), up=0)).shape == (0, 1, 2)
    found = decompose(Trivial(O(3), 0))
    assert found.irreps.dim == 0
    assert found.basis.shape == (0, 0)
    conditions = torch.zeros(0, 2, 2).double(), torch.zeros(0, 3, 3).double()
    assert torch.equal(solve_conditions(*conditions), torch.eye(6).double().view(6, 2, 3))


@given(seed=st.integers(0, 1000), dimension=st.integers(0, 6))
def test_every_basis_of_a_space_gives_the_same(seed, dimension):
    maps = torch.linalg.qr(random(12, dimension, seed=seed))[0].mT.unflatten(-1, (3, 4))
    turn = torch.linalg.qr(random(dimension, dimension, seed=seed + 1))[0]
    basis = unique_basis(maps)
    torch.testing.assert_close(unique_basis(torch.einsum("kd,dij->kij", turn, maps)), basis)
    gram = torch.einsum("aij,bij->ab", basis, basis)
    torch.testing.assert_close(gram, torch.eye(dimension, dtype=torch.float64), **NEAR)
    # the same space: the projector is
    before, after = maps.flatten(1), basis.flatten(1)
    torch.testing.assert_close(after.mT @ after, before.mT @ before, **NEAR)


def test_the_basis_of_coordinate_axes_is_those_axes():
    axes = torch.eye(4, dtype=torch.float64).view(4, 2, 2)[[2, 0, 1]]
    turn = torch.linalg.qr(random(3, 3))[0]
    basis = unique_basis(torch.einsum("kd,dij->kij", turn, axes))
    torch.testing.assert_close(basis, axes[[1, 2, 0]], **NEAR)


def test_a_basis_of_maps_of_tensors_is_the_one_that_is_published_here():
    maps = equivariant_maps(TensorRep(O(3), up=2), TensorRep(O(3), up=2))
    unit = torch.eye(3, dtype=torch.float64)
    trace = torch.einsum("ij,kl->ijkl", unit, unit).reshape(9, 9)
    same = torch.eye(9, dtype=torch.float64)
    swapped = torch.einsum("il,jk->ijkl", unit, unit).reshape(9, 9)
    # the component (xx, xx) is reached by all three: the first is their symmetric sum
    want = (trace + same + swapped) / 45**0.5
    torch.testing.assert_close(maps[0], want, **NEAR)
    assert torch.equal(maps[1:, 0, 0], torch.zeros(2, dtype=torch.float64))


def test_weights_that_nearly_agree_are_told_apart():
    for difference in (1e-3, 1e-6, 1e-8):
        first, second = (TensorRep(GLPlus(2), density=w) for w in (1.0, 1.0 + difference))
        assert len(equivariant_maps(first, second)) == 0
        assert len(equivariant_maps(first + second, first + second)) == 2


def assert_decomposes(rep: Representation) -> None:
    found = decompose(rep)
    g = rep.group.testing_elements(torch.Generator().manual_seed(3))
    left, right = rep.matrix(g) @ found.basis, found.basis @ found.irreps.matrix(g)
    torch.testing.assert_close(left, right, **NEAR)
    assert found.irreps.dim == rep.dim
    if rep.is_orthogonal():
        identity = torch.eye(rep.dim, dtype=torch.float64)
        torch.testing.assert_close(found.basis.mT @ found.basis, identity, **NEAR)
    assert rep.dim == 0 or torch.linalg.cond(found.basis) < 1e6


@pytest.mark.parametrize("group", COMPACT, ids=str)
@pytest.mark.parametrize("rank", range(5))
def test_tensors_decompose(group, rank):
    assert_decomposes(TensorRep(group, up=rank))


@given(st.sampled_from(COMPACT).flatmap(representations).filter(lambda rep: rep.dim < 30))
def test_random_representations_decompose(rep):
    assert_decomposes(rep)


def test_known_decompositions():
    assert str(decompose(TensorRep(O(3), up=2)).irreps) == "1x0e+1x1e+1x2e"
    assert str(decompose(TensorRep(O(3), up=3)).irreps) == "1x0o+3x1o+2x2o+1x3o"
    assert decompose(TensorRep(SO(3), up=2)).irreps == Irreps("0e+1e+2e").restrict(SO(3))
    assert str(decompose(SymPower(TensorRep(O(3)), 4)).irreps) == "1x0e+1x2e+1x4e"
    plane = decompose(TensorRep(SO(2), up=2)).irreps
    assert plane == 2 * PlanarIrrep(SO(2), 0) + PlanarIrrep(SO(2), 2)
    both = decompose(TensorRep(O(2), up=2)).irreps
    kinds = PlanarIrrep(O(2), 0, -1), PlanarIrrep(O(2), 0), PlanarIrrep(O(2), 2)
    assert both == kinds[0] + kinds[1] + kinds[2]


def test_irreps_decompose_into_themselves():
    found = decompose(Irreps("2x1o + 3x0e + 1o", layout="ir_mul"))
    assert str(found.irreps) == "3x0e+3x1o"
    assert found.irreps.layout == "mul_ir"
    assert set(found.basis.abs().unique().tolist()) == {0.0, 1.0}
    irreps = Irreps("3x0e + 2x1o + 1e + 4x3o + 0x2e")
    counts = {str(irrep): count for irrep, count in multiplicities(irreps)}
    assert counts == {"1x0e": 3, "1x1e": 1, "1x1o": 2, "1x3o": 4}


class Skewed(Representation):
    """Vectors of the plane in a basis that is not orthogonal."""

    group: Group = SO(2)
    dim = 2
    basis = torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=torch.float64)

    def matrix(self, g: torch.Tensor) -> torch.Tensor:
        return self.basis @ g @ self.basis.inverse()

    def algebra(self, x: torch.Tensor) -> torch.Tensor:
        return self.basis @ x @ self.basis.inverse()


def test_bases_that_are_not_orthogonal():
    assert not Skewed().is_orthogonal()
    assert_decomposes(Skewed())
    assert_decomposes(Skewed() @ Skewed())


def test_large_products_decompose_by_small_problems(monkeypatch):
    sizes = []

    def counting(left, right):
        sizes.append(left.shape[-1] * right.shape[-1])
        return solve_conditions(left, right)

    module = import_module("equigeo.reps.intertwiners")
    monkeypatch.setattr(module, "solve_conditions", counting)
    assert_decomposes(Irreps("5e") @ Irreps("5o"))
    assert_decomposes((Irreps("3e") @ Irreps("4o")).restrict(SO(3)))
    assert max(sizes) <= 21 * 21  # of degree 10, not its 21 times all 121 features


@pytest.mark.full
def test_large_products_have_the_basis_of_small_ones():
    rep = Irreps("2e") @ Irreps("3o") @ Irreps("1o")
    for irrep, count in multiplicities(rep):
        maps = maps_of_irrep(irrep, rep)
        assert len(maps) == count
        torch.testing.assert_close(maps, equivariant_maps(irrep, rep), **NEAR)
