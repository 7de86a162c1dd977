"""Shares of the area against closed forms, in batches and without area."""

import pytest
import torch
from hypothesis import given, settings

from equigeo.groups import Affine, O
from equigeo.mesh import DualKind, PrimalDualGraph
from equigeo.mesh.geometry.area_shares import AreaShares
from equigeo.mesh.geometry.surface import Surface
from equigeo.reps import Trivial
from equigeo.testing import assert_equivariant
from tests.mesh import shapes
from tests.mesh.definitions import assert_close, graph_of


def _shares(shape, kind=DualKind.SINGLE):
    surface = Surface.from_mesh(shape)
    return AreaShares.measure(surface, surface.edges(), kind)


@settings(max_examples=20, deadline=None)
@given(shape=shapes.meshes())
def test_faces_share_the_area_by_their_own(shape):
    one, two, three = shape.vertices[shape.faces].unbind(1)
    area = torch.linalg.cross(two - one, three - one).norm(dim=1)
    if float(area.sum()) > 0:
        assert_close(_shares(shape).primal, area / area.sum(), terms=16, condition=10)


@pytest.mark.parametrize("kind", list(DualKind))
def test_pairs_share_the_area_of_a_closed_mesh(kind):
    shape = shapes.lumpy(shapes.icosphere(1), seed=3)
    primal, dual = _shares(shape, kind)
    assert_close(dual.sum(), 1.0, terms=240)
    single = _shares(shape).dual
    pairs = dual.reshape(-1, kind.nodes_per_edge)
    assert_close(pairs.sum(dim=1), single)
    surface = Surface.from_mesh(shape)
    assert_close(single, primal[surface.edges()].sum(dim=1) / 3)  # three neighbours a face


def test_a_mesh_without_area_shares_it_evenly():
    flat = shapes.mesh(torch.ones(4, 3), [(0, 1, 2), (0, 2, 3)])
    primal, dual = _shares(flat)
    assert primal.tolist() == [0.5, 0.5]
    assert dual.tolist() == [1.0]


def test_a_batch_has_the_shares_of_its_meshes():
    several = [shapes.bowl(), shapes.torus(), shapes.triangle()]
    together = PrimalDualGraph.batch([graph_of(shape) for shape in several]).shares
    assert torch.equal(together.primal, torch.cat([_shares(shape).primal for shape in several]))
    assert torch.equal(together.dual, torch.cat([_shares(shape).dual for shape in several]))
    alone = PrimalDualGraph.from_adjacency(
        torch.tensor([[0, 1]]), DualKind.SINGLE, torch.zeros(2, dtype=torch.int64), 1
    )
    assert AreaShares.batch([_shares(shapes.bowl()), alone.shares]) is None


def test_shares_are_invariant():
    rep_out = [Trivial(Affine(O(3)), 1)] * 2
    assert_equivariant(
        lambda shape: tuple(share[:, None] for share in _shares(shape)),
        rep_out=rep_out, inputs=[shapes.bowl()], condition=1e3,
    )  # fmt: skip
