"""Decompositions into irreps, and how often characters count each."""

from importlib import import_module

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.groups import SL, SO, Affine, GLPlus, Group, O
from equigeo.reps import (
    Irreps,
    PlanarIrrep,
    Points,
    Representation,
    SymPower,
    TensorRep,
    Trivial,
    decompose,
)
from equigeo.reps.intertwiners import solve_conditions
from equigeo.reps.irreps import maps_by_characters, multiplicities
from equigeo.testing import tolerance
from tests.reps.test_representation import representations
from tests.wrong_inputs import refused

maps_module = import_module("equigeo.reps.intertwiners")

GROUPS: list[Group] = [O(2), SO(2), O(3), SO(3)]
CLOSE = tolerance(torch.float64, 64)


def assert_decomposes(rep: Representation) -> None:
    found = decompose(rep)
    g = rep.group.testing_elements(torch.Generator().manual_seed(3))
    left, right = rep.matrix(g) @ found.basis, found.basis @ found.irreps.matrix(g)
    torch.testing.assert_close(left, right, **CLOSE)
    assert found.irreps.dim == rep.dim
    if rep.is_orthogonal():
        identity = torch.eye(rep.dim, dtype=torch.float64)
        torch.testing.assert_close(found.basis.mT @ found.basis, identity, **CLOSE)
    assert rep.dim == 0 or torch.linalg.cond(found.basis) < 1e6


@pytest.mark.parametrize("group", GROUPS, ids=str)
@pytest.mark.parametrize("rank", range(5))
def test_tensors_decompose(group, rank):
    assert_decomposes(TensorRep(group, up=rank))


@given(st.sampled_from(GROUPS).flatmap(representations).filter(lambda rep: rep.dim < 30))
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


def test_irreps_decompose_into_themselves_sorted():
    found = decompose(Irreps("2x1o + 3x0e + 1o", layout="ir_mul"))
    assert str(found.irreps) == "3x0e+3x1o"
    assert found.irreps.layout == "mul_ir"
    assert set(found.basis.abs().unique().tolist()) == {0.0, 1.0}


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

    monkeypatch.setattr(maps_module, "solve_conditions", counting)
    assert_decomposes(Irreps("5e") @ Irreps("5o"))
    assert_decomposes((Irreps("3e") @ Irreps("4o")).restrict(SO(3)))
    assert max(sizes) <= 21 * 21  # of degree 10, not its 21 times all 121 features


@pytest.mark.full
def test_large_products_have_the_basis_of_small_ones():
    rep = Irreps("2e") @ Irreps("3o") @ Irreps("1o")
    for irrep, count in multiplicities(rep):
        maps = maps_module.maps_of_irrep(irrep, rep)
        assert len(maps) == count
        torch.testing.assert_close(maps, maps_module.equivariant_maps(irrep, rep), **CLOSE)


def test_nothing_decomposes_into_nothing():
    found = decompose(Trivial(O(3), 0))
    assert found.irreps.dim == 0
    assert found.basis.shape == (0, 0)


def test_bad_arguments_are_refused():
    refused(r"irreps are known of O\(2\), SO\(2\), .* got SL\(2\)", decompose, TensorRep(SL(2)))
    refused(r"got Affine\(O\(3\)\); use restrict", decompose, TensorRep(Affine(O(3))))
    refused("needs linear parts", decompose, Points(O(3)), error=TypeError)


def test_multiplicities_are_those_that_were_put_in():
    irreps = Irreps("3x0e + 2x1o + 1e + 4x3o + 0x2e")
    counts = {str(irrep): count for irrep, count in multiplicities(irreps)}
    assert counts == {"1x0e": 3, "1x1e": 1, "1x1o": 2, "1x3o": 4}


def test_dimensions_are_known_of_compact_groups():
    vector = TensorRep(O(3))
    assert maps_by_characters(vector @ vector, vector @ vector) == 3
    assert maps_by_characters(TensorRep(GLPlus(3)), TensorRep(GLPlus(3))) is None


class NoCharacter(Representation):
    """Matrices that are no homomorphism."""

    group: Group = O(3)
    dim = 3

    def matrix(self, g: torch.Tensor) -> torch.Tensor:
        return 1.3 * g

    def algebra(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_traces_that_are_no_character_are_refused():
    with pytest.raises(ArithmeticError, match=r"must be a whole number, got 1\.(3|29)"):
        multiplicities(NoCharacter())
