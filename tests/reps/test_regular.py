"""The regular representation acts by permutations, and only where there is one."""

import copy
import pickle

import pytest
import torch

from equigeo.groups import (
    SL,
    SO,
    Affine,
    GroupSamples,
    equidistant_rotations,
    finite_rotations,
    grid_stretches,
    point_group,
)
from equigeo.reps import Irreps, Regular, TensorRep, Trivial
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import generator
from tests.wrong_inputs import refused

CLOSED = [equidistant_rotations(6, offset=0.3)] + [
    finite_rotations(name) for name in ("dihedral", "tetrahedral", "octahedral", "icosahedral")
]
CLOSED += [point_group(name) for name in ("D_3d", "T_d", "I_h")]


@pytest.fixture(params=CLOSED, ids=str)
def samples(request: pytest.FixtureRequest) -> GroupSamples:
    return request.param


def moves(samples: GroupSamples) -> torch.Tensor:
    """Elements that permute the samples: quotients of two."""
    return samples.h @ samples.h_inv[0]


def test_matrices_are_a_homomorphism(samples):
    rep, g = Regular(samples), moves(samples)
    matrix = rep.matrix(g)
    assert matrix.shape == (rep.dim, rep.dim, rep.dim)
    assert torch.equal(matrix.sum(-1), torch.ones_like(matrix[0]))
    assert torch.equal(rep.matrix(g @ g.flip(0)), matrix @ matrix.flip(0))
    assert torch.equal(rep.matrix(rep.group.identity()), torch.eye(rep.dim).double())
    character = matrix.diagonal(dim1=1, dim2=2).sum(-1)
    assert sorted(character.tolist()) == [0.0] * (rep.dim - 1) + [rep.dim]


def test_functions_move_with_their_argument(samples):
    rep, g = Regular(samples), moves(samples)
    weights = torch.randn(rep.group.n, rep.group.n, dtype=torch.float64, generator=generator())

    def function(h: torch.Tensor) -> torch.Tensor:
        return torch.einsum("...ij,ij->...", h, weights).sin()

    want = function(g.mT[:, None] @ samples.h)
    got = rep.act(g, function(samples.h))
    torch.testing.assert_close(got, want, **tolerance(torch.float64, 9))
    x = torch.arange(rep.dim)
    assert torch.equal(rep.act(g, x).sort(-1).values, x.expand(rep.dim, -1))
    product = (rep.matrix(g) @ x.double()[:, None])[..., 0]
    assert torch.equal(rep.act(g, x.double()), product)


def test_representations_are_values(samples):
    rep = Regular(samples)
    again = GroupSamples.from_elements(samples.group, samples.h.clone(), 2 * samples.weight)
    same = {rep, Regular(again), copy.deepcopy(rep), pickle.loads(pickle.dumps(rep)), rep.dual()}
    assert len(same) == 1
    assert rep != Regular(samples.select(torch.arange(len(samples)).flip(0)))
    assert rep != Regular(samples.to(dtype=torch.float32))
    assert rep != Trivial(samples.group, len(samples))


@pytest.mark.parametrize("samples", [finite_rotations("octahedral"), point_group("T_d")], ids=str)
def test_layers_are_tested_on_closed_sets(samples):
    rep, vector = Regular(samples), TensorRep(samples.group)
    axis = torch.tensor([0.3, -0.2, 0.9], dtype=torch.float64)

    def read(x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bi,ijk,k->bj", x, samples.h, axis)

    x = torch.randn(4, 24, dtype=torch.float64, generator=generator())
    assert_equivariant(read, rep, vector, inputs=[x], elements=samples.h)
    assert_equivariant(read, rep, Irreps("1o"), inputs=[x], elements=samples.h)

    def skewed(x: torch.Tensor) -> torch.Tensor:
        return read(x * torch.arange(24))

    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(skewed, rep, vector, inputs=[x], elements=samples.h)


def test_sums_and_restrictions_permute_too():
    samples = finite_rotations("tetrahedral")
    rep = Regular(samples) + TensorRep(SO(3))
    assert rep.matrix(samples.h).shape == (12, 15, 15)
    affine = Affine(SO(3))
    g = affine.element(samples.h[3], torch.ones(3).double())
    restricted = Regular(samples).restrict(affine)
    assert torch.equal(restricted.matrix(g), Regular(samples).matrix(samples.h[3]))


def test_elements_that_do_not_permute_and_bad_arguments_raise():
    samples = finite_rotations("octahedral")
    with pytest.raises(ValueError, match="g must permute the 24 samples of SO"):
        Regular(samples).matrix(SO(3).haar(1, generator=generator()))
    turned = finite_rotations("octahedral", SO(3).haar(1, generator=generator())[0])
    refused("must permute", Regular(turned).matrix, samples.h)
    grid = Regular(grid_stretches(SL(2), 1.0, 3))
    refused("must permute", grid.act, torch.diag(torch.tensor([2.0, 0.5])), torch.zeros(9))
    twice = samples.select(torch.tensor([0, 0]))
    refused("or two on the same", Regular(twice).matrix, SO(3).identity())
    rep = Regular(equidistant_rotations(4))
    assert not rep.is_trivial()
    assert Regular(equidistant_rotations(1)).is_trivial()
    refused("samples must be GroupSamples, got Tensor", Regular, torch.eye(2), error=TypeError)
    refused("has no derivative", rep.generators)
    refused("elements of SO", rep.matrix, torch.eye(3))
    refused("features of Regular", rep.act, torch.eye(2), torch.zeros(5))
