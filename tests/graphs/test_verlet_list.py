import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from equigeo.graphs import VerletList, neighbor_list
from equigeo.graphs import verlet_list as module
from equigeo.testing import tolerance
from tests.graphs.conformance import assert_same, rotation
from tests.tier import tier
from tests.wrong_inputs import refused

CELL = torch.tensor([[4.0, 0, 0], [1.3, 4.2, 0], [-0.9, 0.8, 3.9]], dtype=torch.float64)
COUNT, CUTOFF, SKIN = 12, 2.5, 0.4
TWO = torch.tensor([0, 5, COUNT])  # offsets of systems
PBC = ([True, True, True], [True, False, True], [False, True, False], [False, False, False])


def points(seed: int = 0, count: int = COUNT):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, 3, dtype=torch.float64, generator=generator) @ CELL


WALKS = list(itertools.product(PBC, [torch.float32, torch.float64]))


@pytest.mark.parametrize(("pbc", "dtype"), tier([WALKS[k] for k in (0, 3, 4, 7)], WALKS))
def test_edges_are_those_of_a_search_wherever_points_and_cells_go(pbc, dtype):
    backend = "cells" if dtype == torch.float64 else "scipy"
    moving = VerletList(CUTOFF, SKIN, backend=backend)
    generator = torch.Generator().manual_seed(1)
    x, cell = points(), CELL
    for _ in range(60):
        x = x + 0.02 * torch.randn(COUNT, 3, dtype=torch.float64, generator=generator)
        matrix = 0.005 * torch.randn(3, 3, dtype=torch.float64, generator=generator)
        x, cell = x + x @ matrix, cell + cell @ matrix
        given = x.to(dtype), CUTOFF, cell.to(dtype), pbc
        assert_same(moving.update(given[0], *given[2:]), neighbor_list(*given, backend="scipy"))
    assert 5 < moving.rebuilds < 50


@given(st.integers(0, 2**32 - 1), st.sampled_from(PBC), st.floats(-3, 0), st.floats(-3, -0.5))
def test_no_edge_is_missed_after_one_step_of_any_size(seed, pbc, step, strain):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    moving, x = VerletList(CUTOFF, SKIN), 3 * normal(COUNT, 3)
    moving.update(x, CELL, pbc)
    matrix = torch.eye(3, dtype=torch.float64) + 10**strain * normal(3, 3)
    x, cell = x @ matrix + 10**step * normal(COUNT, 3), CELL @ matrix
    assert_same(moving.update(x, cell, pbc), neighbor_list(x, CUTOFF, cell, pbc))


def test_half_a_skin_is_how_far_a_point_may_go_before_a_list_is_stale(monkeypatch):
    x = torch.tensor([[0.0, 0, 0], [CUTOFF + SKIN / 2, 0, 0]], dtype=torch.float64)
    for share, rebuilds in ((0.499, 1), (0.501, 2)):
        moving, near = VerletList(CUTOFF, SKIN), x.clone()
        assert moving.update(near).num_edges == 0
        near[0, 0] += share * SKIN  # in place: what it was is remembered
        near[1, 0] -= share * SKIN
        assert moving.update(near).num_edges == 2
        assert moving.rebuilds == rebuilds
    moving, x = VerletList(CUTOFF, SKIN), points()
    moving.update(x, CELL)
    monkeypatch.setattr(module._Search, "holds", lambda *_: True)
    stale = moving.update(x + points(1), CELL)
    assert stale.num_edges < neighbor_list(x + points(1), CUTOFF, CELL).num_edges


def test_cells_deform_with_what_is_in_them_by_the_skin_and_no_more():
    for scale, rebuilds in ((0.863, 1), (0.861, 2)):  # 2.5 / 2.9 = 0.862
        moving = VerletList(CUTOFF, SKIN)
        moving.update(points(), CELL)
        found = moving.update(points() * scale, CELL * scale)
        assert_same(found, neighbor_list(points() * scale, CUTOFF, CELL * scale))
        assert moving.rebuilds == rebuilds
    moving = VerletList(CUTOFF, SKIN)
    moving.update(points(), CELL)
    turn = torch.from_numpy(rotation())
    moving.update(points() @ turn, CELL @ turn)
    assert moving.rebuilds == 1
    moving.update(points() @ turn, CELL)  # the cell alone turns back
    assert moving.rebuilds == 2
    skewed = torch.tensor([[1.0, 0, 0], [1e7, 1, 0], [0, 0, 1]], dtype=torch.float64)
    moving, x = VerletList(1.5, SKIN), torch.zeros(1, 3, dtype=torch.float64)
    moving.update(x, skewed)
    assert_same(moving.update(x, skewed * 0.99), neighbor_list(x, 1.5, skewed * 0.99))
    assert moving.rebuilds == 2


def test_what_is_another_system_is_searched_again():
    moving, two = VerletList(CUTOFF, SKIN), TWO
    cells = torch.stack([CELL, 1.1 * CELL])
    steps = [
        ((points(), CELL), {}),
        ((points(), CELL, [True, True, False]), {}),
        ((points(), None), {}),
        ((points(count=7), None), {}),
        ((points(), cells), {"ptr": two}),
        ((points(), cells), {"ptr": torch.tensor([0, 6, COUNT])}),
        ((points(), cells, torch.tensor(PBC[:2])), {"ptr": two}),
        ((points()[:0], None), {}),
    ]
    for k, (given_, groups) in enumerate(steps):
        for _ in range(2):
            want = neighbor_list(given_[0], CUTOFF, *given_[1:], **groups)
            assert_same(moving.update(*given_, **groups), want)
        assert moving.rebuilds == k + 1


@pytest.mark.parametrize("pbc", [True, False, [True, True, False]])
def test_systems_of_a_batch_deform_each_in_its_own_way(pbc):
    moving, ptr = VerletList(CUTOFF, SKIN), torch.tensor([0, 5, 5, COUNT])
    batch = torch.tensor([0] * 5 + [2] * 7)
    matrices = torch.eye(3).double() + 0.03 * torch.randn(
        3, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
    )
    cells = CELL @ matrices
    before = points() + 2 * CELL.sum(0)  # far from the origin, which stays where it is
    x = torch.einsum("na,nab->nb", before, matrices[batch])
    moving.update(before, CELL.expand(3, 3, 3), pbc, ptr=ptr)
    want = neighbor_list(x, CUTOFF, cells, pbc, ptr=ptr)
    found = moving.update(x, cells, pbc, ptr=ptr)
    assert_same(found, want)
    assert torch.equal(found.batch, want.batch)
    assert (x - before).norm(dim=1).max() > SKIN / 2
    assert moving.rebuilds == (1 if pbc is True else 2)


def test_without_a_skin_every_update_is_a_search_and_other_lengths_are_positive():
    moving = VerletList(CUTOFF, 0)
    for k in range(3):
        assert_same(moving.update(points(), CELL), neighbor_list(points(), CUTOFF, CELL))
        assert moving.rebuilds == k + 1
    for skin in (0, np.float64(0), np.float32(0), torch.tensor(0.0)):
        assert VerletList(CUTOFF, skin).skin == 0.0
    for skin in (-1.0, np.inf):
        refused("skin must be positive and finite", VerletList, CUTOFF, skin)
    for skin in (None, "1", True):
        refused("skin must be a number", VerletList, CUTOFF, skin, error=TypeError)
    refused("cutoff must be positive", VerletList, 0.0)


def test_vectors_have_gradients_after_a_search_and_after_a_step():
    moving = VerletList(CUTOFF, SKIN)
    with torch.inference_mode():
        moving.update(points(), CELL)
    for k in range(2):
        x, cell = (points() * (1 + k / 100)).requires_grad_(), CELL.clone().requires_grad_()
        slopes = torch.autograd.grad(moving.update(x, cell).vectors.square().sum(), (x, cell))
        vectors = neighbor_list(x, CUTOFF, cell).vectors
        for slope, want in zip(
            slopes, torch.autograd.grad(vectors.square().sum(), (x, cell)), strict=True
        ):
            torch.testing.assert_close(slope, want)
    assert moving.rebuilds == 1


def test_lists_are_copied_and_pickled_with_what_they_remember():
    moving = VerletList(CUTOFF, SKIN)
    moving.update(points(), CELL)
    for other in (copy.deepcopy(moving), pickle.loads(pickle.dumps(moving))):
        assert_same(other.update(points(), CELL), neighbor_list(points(), CUTOFF, CELL))
        assert other.rebuilds == 1


def test_bad_input_is_refused_at_every_step():
    moving = VerletList(CUTOFF, SKIN)
    moving.update(points(), CELL)
    wrong = points()
    wrong[0] = torch.nan
    singular = CELL * torch.tensor([[1.0], [1.0], [0.0]])
    for given_, error, message in (
        ((wrong, CELL), ValueError, "positions must be finite"),
        ((points(), CELL * np.inf), ValueError, "cell must be finite"),
        ((points(), singular), ValueError, "cell must have independent vectors"),
        ((points().float(), CELL), TypeError, "cell must be torch.float32"),
        ((points().long(), CELL), TypeError, "positions must be floating"),
        ((points(), CELL, [1, 1, 1]), TypeError, "pbc must be bool"),
    ):
        refused(message, moving.update, *given_, error=error)
    assert_same(moving.update(points(), CELL), neighbor_list(points(), CUTOFF, CELL))


# A program of PyTorch's own for tangents, made when the first is.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("skin", [0.0, SKIN])
def test_lists_work_under_transforms_and_after_them(skin):
    moving, x = VerletList(CUTOFF, skin, backend="cells"), points()
    fresh, two = neighbor_list(x, CUTOFF, CELL, ptr=TWO), TWO.clone()

    def energy(x):
        found = moving.update(x, CELL, ptr=two)
        return found.edges.sum(x).square().sum() + found.vectors.square().sum()

    for transform in (torch.func.hessian, torch.func.grad, torch.func.jacfwd, torch.func.grad):
        slope = transform(energy)(x)
    want = x.clone().requires_grad_()
    energy(want).backward()
    assert torch.equal(slope, want.grad)
    assert_same(moving.update(x, CELL, ptr=two), fresh)
    tangent = torch.func.jvp(energy, (x,), (torch.ones_like(x),))[1]
    assert_close(tangent, slope.sum(), **tolerance(torch.float64, 64))
