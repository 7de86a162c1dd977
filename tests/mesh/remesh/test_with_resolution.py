from __future__ import annotations

import pytest
import torch

from equigeo.mesh.remesh.with_resolution import with_resolution
from tests.mesh import shapes
from tests.mesh.remesh.test_subdivide import area, topology


@pytest.mark.parametrize("factor", [0.1, 0.5, 1.0, 1.5, 2.0, 4.0])
def test_a_sphere_has_that_many_times_its_faces(factor):
    sphere = shapes.icosphere(2)
    other = with_resolution(sphere, factor, torch.Generator().manual_seed(0))
    assert other.num_faces == round(factor * 320)
    assert topology(other) == topology(sphere)
    # Half of what an inscribed polyhedron of 32 faces, the fewest here, lacks of a sphere: 5 / 32.
    assert area(other).sum().item() == pytest.approx(area(sphere).sum().item(), rel=0.08)


def test_finer_meshes_stay_on_the_surface_and_differ_in_connectivity():
    cube = shapes.cube()
    one, other = (with_resolution(cube, 3.0, torch.Generator().manual_seed(k)) for k in range(2))
    for mesh in (one, other):
        assert area(mesh).sum().item() == pytest.approx(6, rel=0.03)  # corners may be cut
    assert not torch.equal(one.faces, other.faces)


def test_what_cannot_shrink_stays():
    assert with_resolution(shapes.tetrahedron(), 0.1).num_faces == 4
    assert with_resolution(shapes.triangle(), 0.1).num_faces == 1


@pytest.mark.parametrize("factor", [0.0, -1.0, 4.5, float("nan")])
def test_a_factor_out_of_range_is_refused(factor):
    with pytest.raises(ValueError, match="factor must be positive and at most 4"):
        with_resolution(shapes.cube(), factor)
