"""The basis of a space of matrices depends on the space alone; conditions hold to rounding."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.groups import GL, GLPlus, O
from equigeo.reps import Irreps, TensorRep
from equigeo.reps.equivariant_maps import equivariant_maps, solve_conditions, unique_basis
from equigeo.testing import tolerance

CLOSE = tolerance(torch.float64, 64)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


@given(seed=st.integers(0, 1000), dimension=st.integers(0, 6))
@settings(max_examples=30, deadline=None)
def test_every_basis_of_a_space_gives_the_same(seed, dimension):
    maps = torch.linalg.qr(random(12, dimension, seed=seed))[0].mT.unflatten(-1, (3, 4))
    turn = torch.linalg.qr(random(dimension, dimension, seed=seed + 1))[0]
    basis = unique_basis(maps)
    torch.testing.assert_close(unique_basis(torch.einsum("kd,dij->kij", turn, maps)), basis)
    gram = torch.einsum("aij,bij->ab", basis, basis)
    torch.testing.assert_close(gram, torch.eye(dimension, dtype=torch.float64), **CLOSE)
    # the same space: the projector is
    before, after = maps.flatten(1), basis.flatten(1)
    torch.testing.assert_close(after.mT @ after, before.mT @ before, **CLOSE)


def test_the_basis_of_coordinate_axes_is_those_axes():
    axes = torch.eye(4, dtype=torch.float64).view(4, 2, 2)[[2, 0, 1]]
    turn = torch.linalg.qr(random(3, 3))[0]
    basis = unique_basis(torch.einsum("kd,dij->kij", turn, axes))
    torch.testing.assert_close(basis, axes[[1, 2, 0]], **CLOSE)


def test_a_basis_of_maps_of_tensors_is_the_one_that_is_published_here():
    """Fixed numbers: the basis may not change with a library or a machine."""
    maps = equivariant_maps(TensorRep(O(3), up=2), TensorRep(O(3), up=2))
    unit = torch.eye(3, dtype=torch.float64)
    trace = torch.einsum("ij,kl->ijkl", unit, unit).reshape(9, 9)
    same = torch.eye(9, dtype=torch.float64)
    swapped = torch.einsum("il,jk->ijkl", unit, unit).reshape(9, 9)
    # the component (xx, xx) is reached by all three: the first is their symmetric sum
    want = (trace + same + swapped) / 45**0.5
    torch.testing.assert_close(maps[0], want, **CLOSE)
    assert torch.equal(maps[1:, 0, 0], torch.zeros(2, dtype=torch.float64))


def test_without_conditions_every_matrix_solves_them():
    nothing = torch.zeros(0, 2, 2, dtype=torch.float64), torch.zeros(0, 3, 3, dtype=torch.float64)
    assert torch.equal(solve_conditions(*nothing), torch.eye(6).double().view(6, 2, 3))


def test_weights_that_nearly_agree_are_told_apart():
    for difference in (1e-3, 1e-6, 1e-8):
        first, second = (TensorRep(GLPlus(2), density=w) for w in (1.0, 1.0 + difference))
        assert len(equivariant_maps(first, second)) == 0
        assert len(equivariant_maps(first + second, first + second)) == 2


def test_no_features_have_no_maps():
    assert equivariant_maps(Irreps(""), Irreps("1o")).shape == (0, 3, 0)
    assert equivariant_maps(TensorRep(GL(2)), TensorRep(GL(2), up=0)).shape == (0, 1, 2)
