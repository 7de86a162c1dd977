"""Moving a surface, and shares of its area against closed forms."""

import pytest
import torch
from hypothesis import given

from equigeo.groups import Affine, O
from equigeo.mesh import DualKind, PrimalDualGraph
from equigeo.mesh.geometry.area_shares import AreaShares
from equigeo.mesh.geometry.surface import Surface
from equigeo.reps import Trivial
from equigeo.testing import assert_equivariant
from tests.mesh import shapes
from tests.mesh.definitions import assert_close, graph_of


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def _factors(scale, number=2000):
    """The matrices by which an octahedron is stretched: where the unit vectors go."""
    unit = Surface.from_mesh(shapes.octahedron())
    surface = Surface.batch([unit] * number)
    moved = surface.stretch(scale, _generator()).vertices.reshape(number, 6, 3)
    return moved[:, :3].mT


def test_a_stretch_is_symmetric_positive_and_keeps_volumes():
    factors = _factors(0.4)
    torch.testing.assert_close(factors, factors.mT)
    assert (torch.linalg.eigvalsh(factors) > 0).all()
    torch.testing.assert_close(torch.linalg.det(factors), torch.ones(2000).double())


def test_logarithms_have_the_deviation_and_no_direction():
    values, vectors = torch.linalg.eigh(_factors(0.4))
    logarithms = vectors @ values.log().diag_embed() @ vectors.mT
    # without the mean of three, a diagonal entry keeps two thirds of its variance
    diagonal = logarithms.diagonal(dim1=1, dim2=2)
    error = 4 / (2 * 2000) ** 0.5  # of a deviation of 2,000 samples, four times
    assert diagonal.std(0) == pytest.approx(0.4 * (2 / 3) ** 0.5, rel=error)
    assert logarithms[:, 0, 1].std().item() == pytest.approx(0.4 / 2**0.5, rel=error)
    # the same along an axis that is none of the coordinates'
    axis = torch.ones(3).double() / 3**0.5
    along = torch.einsum("nij,i,j->n", logarithms, axis, axis)
    assert along.std().item() == pytest.approx(0.4 * (2 / 3) ** 0.5, rel=error)


def test_meshes_of_a_batch_are_stretched_apart_and_repeatably():
    surface = Surface.batch([Surface.from_mesh(shapes.cube())] * 2)
    first, again, other = (surface.stretch(0.2, _generator(k)).vertices for k in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert not torch.allclose(*first.split(8))
    assert torch.equal(surface.stretch(0.0, _generator()).vertices, surface.vertices)


def test_deform_measures_again_what_stretch_and_jitter_moved():
    graph = PrimalDualGraph.from_mesh(shapes.lumpy(shapes.icosphere(1)))
    moved = graph.deform(stretch=0.3, generator=_generator())
    mesh = shapes.mesh(moved.surface.vertices, moved.surface.faces)
    torch.testing.assert_close(moved.x_dual, PrimalDualGraph.from_mesh(mesh).x_dual)
    assert not torch.allclose(moved.x_dual, graph.x_dual)
    same = graph.deform(generator=_generator())
    assert torch.equal(same.x_dual, graph.x_dual)
    jittered = graph.deform(jitter=0.1, generator=_generator())
    assert torch.equal(jittered.x_dual, graph.jitter(0.1, _generator()).x_dual)


def _shares(shape, kind=DualKind.SINGLE):
    surface = Surface.from_mesh(shape)
    return AreaShares.measure(surface, surface.edges(), kind)


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
