"""What moves a surface; what is measured on it is tested with features and graphs."""

from __future__ import annotations

import pytest
import torch

from equigeo.mesh import PrimalDualGraph
from equigeo.mesh.geometry.surface import Surface
from tests.mesh import shapes


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
