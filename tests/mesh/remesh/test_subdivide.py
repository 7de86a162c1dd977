"""Subdivision, and other resolutions of a mesh."""

import pytest
import torch
from hypothesis import given

from equigeo.mesh import MeshError, PrimalDualGraph, TriangleMesh, subdivide
from equigeo.mesh.geometry.half_edges import HalfEdges
from equigeo.mesh.remesh.with_resolution import with_resolution
from equigeo.mesh.repair import MeshTopology
from tests.mesh import shapes


def topology(mesh):
    pairs = None if mesh.pairs is None else mesh.pairs.numpy()
    return MeshTopology.from_faces(mesh.faces.numpy(), pairs=pairs)


def area(mesh):
    corners = mesh.vertices[mesh.faces]
    normals = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return normals.norm(dim=1) / 2


@pytest.mark.parametrize(
    "mesh", [shapes.tetrahedron(), shapes.cube(), shapes.icosphere(1)], ids=str
)
def test_four_faces_of_a_quarter_each_on_the_same_surface(mesh):
    fine = subdivide(mesh)
    assert (fine.num_faces, fine.num_vertices) == (
        4 * mesh.num_faces, mesh.num_vertices + 3 * mesh.num_faces // 2
    )  # fmt: skip
    assert torch.equal(fine.vertices[: mesh.num_vertices], mesh.vertices)
    assert topology(fine) == topology(mesh)
    assert torch.allclose(area(fine), area(mesh).repeat_interleave(4) / 4)


def test_it_commutes_with_affine_maps():
    mesh, g = shapes.cube(), torch.randn(4, 4, dtype=torch.float64)
    g[3] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    moved = subdivide(mesh).act(g)
    assert torch.allclose(subdivide(mesh.act(g)).vertices, moved.vertices)


def _cut_box():
    """A tetrahedron's faces, two of which do not continue each other along an edge."""
    mesh = shapes.tetrahedron()
    pairs = HalfEdges.from_mesh(mesh).pairs()
    return TriangleMesh(mesh.vertices, mesh.faces, pairs[1:])


def test_faces_that_were_cut_apart_have_midpoints_of_their_own():
    mesh = _cut_box()
    fine = subdivide(mesh)
    assert fine.num_vertices == 4 + 6 + 1
    assert not topology(fine).closed
    assert topology(fine).euler == topology(mesh).euler
    # the pairs that it carries are those that vertices tell now
    expected = HalfEdges.from_faces(fine.faces).pairs()
    assert torch.equal(HalfEdges.from_mesh(fine).pairs(), expected)
    graph = PrimalDualGraph.from_mesh(subdivide(fine))
    assert graph.num_primal == 64


def test_pairs_that_run_the_same_way_stay_pairs():
    # two faces wound alike along the edge 0-1
    faces = torch.tensor([[0, 1, 2], [0, 1, 3]])
    mesh = TriangleMesh(torch.eye(4, 3), faces, torch.tensor([[0, 3]]))
    fine = subdivide(mesh)
    assert fine.num_vertices == 4 + 5
    assert fine.pairs is not None
    ends = torch.stack([fine.faces, fine.faces.roll(-1, 1)], -1).reshape(-1, 2)
    outer = fine.pairs[:2]
    assert torch.equal(ends[outer[:, 0]], ends[outer[:, 1]])
    assert {tuple(sorted(e)) for e in ends[outer[:, 0]].tolist()} == {(0, 4), (1, 4)}


@given(shapes.meshes())
def test_any_manifold_mesh_keeps_its_topology(mesh):
    fine, before = topology(subdivide(mesh)), topology(mesh)
    assert (fine.euler, fine.closed, fine.oriented, fine.components) == (
        before.euler, before.closed, before.oriented, before.components
    )  # fmt: skip


def test_an_empty_mesh_has_nothing_to_divide_and_what_is_no_manifold_is_refused():
    faces = torch.tensor([[0, 1, 2], [0, 1, 3]])
    with pytest.raises(MeshError, match="directed edge"):
        subdivide(TriangleMesh(torch.eye(4, 3), faces))
    with pytest.raises(TypeError, match="must be a TriangleMesh"):
        subdivide(faces)
    mesh = TriangleMesh(torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.long))
    assert subdivide(mesh).num_faces == 0


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
