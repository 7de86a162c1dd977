import math

import numpy as np
import pytest
import torch
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.mesh import MeshError, PrimalDualGraph, TriangleMesh, load_mesh, simplify, subdivide
from equigeo.mesh.geometry.half_edges import edge_pairs, pairs_of_faces
from equigeo.mesh.repair.topology import MeshTopology
from equigeo.mesh.simplify import collapse_edges
from equigeo.mesh.subdivide import with_resolution
from equigeo.testing import tolerance
from tests.draws import generator
from tests.mesh import shapes
from tests.mesh.definitions import components
from tests.mesh.io.files import obj_text
from tests.tier import tier
from tests.wrong_inputs import refused


def topology(mesh):
    pairs = None if mesh.pairs is None else mesh.pairs.numpy()
    return MeshTopology.from_faces(mesh.faces.numpy(), pairs=pairs)


def measures(mesh):
    """The same mesh in trimesh, which measures areas and volumes."""
    return trimesh.Trimesh(mesh.vertices.numpy(), mesh.faces.numpy(), process=False)


@pytest.mark.parametrize("count", [1000, 640, 320])
def test_a_sphere_stays_one(count):
    sphere = shapes.icosphere(3)
    simple = simplify(sphere, count, generator())
    assert simple.num_faces == count
    assert topology(simple) == topology(sphere)
    # n equilateral triangles inscribed in the sphere have circumradii r with
    # r^2 = 16 pi / (3 sqrt(3) n) = 9.67 / n, and lack 5/8 r^2 of its area and 9/8 r^2 of its
    # volume; optimal positions do better
    square = 9.67 / count
    assert measures(simple).area == pytest.approx(4 * math.pi, rel=5 / 8 * square)
    assert measures(simple).volume == pytest.approx(4 / 3 * math.pi, rel=9 / 8 * square)
    assert (simple.vertices.norm(dim=1) - 1).abs().max() < square


def test_a_plane_stays_flat_within_its_boundary():
    x, y = torch.meshgrid(torch.arange(9.0), torch.arange(9.0), indexing="ij")
    a = (9 * torch.arange(8)[:, None] + torch.arange(8)).reshape(-1)
    faces = torch.stack([a, a + 9, a + 10, a, a + 10, a + 1], dim=1).reshape(-1, 3)
    square = TriangleMesh(torch.stack([x, y, 0 * x], dim=-1).reshape(-1, 3), faces)
    simple = simplify(square, 41)  # odd: one more collapse at the boundary
    assert simple.num_faces == 41
    assert topology(simple) == topology(square)
    # Positions come from systems whose matrices have a hundredth added, of coordinates up to 8.
    assert simple.vertices[:, 2].abs().max() < tolerance(torch.float64, 4, condition=800)["atol"]
    # At the boundary as well a hundredth pulls towards middles of edges, which makes corners blunt.
    assert measures(simple).area == pytest.approx(64, rel=0.01)


def test_it_depends_on_its_generator_alone_not_on_place_and_scale():
    mesh = shapes.icosphere(2)
    first, again, other = (simplify(mesh, 100, generator(k)) for k in (1, 1, 2))
    assert torch.equal(first.vertices, again.vertices)
    assert torch.equal(first.faces, again.faces)
    assert not torch.equal(first.faces, other.faces)
    assert torch.equal(simplify(mesh, 100).vertices, simplify(mesh, 100).vertices)
    mesh = shapes.lumpy(shapes.icosphere(2), amount=0.03)
    far = TriangleMesh(1e-3 * mesh.vertices + 100, mesh.faces)
    one, other = simplify(mesh, 120), simplify(far, 120)
    assert torch.equal(one.faces, other.faces)
    # positions of 100 have seven digits less than those of 1e-3
    assert torch.allclose(1e-3 * one.vertices + 100, other.vertices, atol=1e-11)


@settings(max_examples=tier(8, 100))
@given(shapes.meshes(), st.floats(0.05, 1.0), st.integers(0, 9))
def test_any_manifold_mesh_keeps_topology_and_never_falls_short(mesh, share, seed):
    whole = simplify(mesh, mesh.num_faces)  # each fan of faces at a vertex has its own
    count = max(1, int(share * mesh.num_faces))
    simple, origin = simplify(mesh, count, generator(seed), exact=False, return_origin=True)
    assert count <= simple.num_faces <= mesh.num_faces
    assert topology(simple) == topology(whole)
    assert (origin.diff() > 0).all()
    assert len(origin) == simple.num_faces
    assert PrimalDualGraph.from_mesh(simple).x_dual.isfinite().all()
    assert simple.vertices.isfinite().all()


def test_faces_keep_their_places_and_sides():
    mesh = shapes.icosphere(3)
    simple, origin = simplify(mesh, 300, generator(), return_origin=True)
    before = mesh.vertices[mesh.faces].mean(dim=1)[origin]
    after = simple.vertices[simple.faces].mean(dim=1)
    cosines = torch.nn.functional.cosine_similarity(before, after)
    # a face of 300 spans about 0.25 radians
    assert cosines.mean() > math.cos(0.25)
    assert cosines.min() > math.cos(1.0)
    upper = before[:, 2] > 0
    assert ((after[:, 2] > 0) == upper).double().mean() > 0.9


def test_parts_that_cannot_shrink_stay_and_unreachable_numbers_raise():
    ball = shapes.icosphere(1)
    parts = shapes.union(shapes.tetrahedron(), shapes.moved(shapes.triangle(), (9, 0, 0)), ball)
    simple = simplify(parts, 45)
    assert (topology(simple).components, simple.num_faces) == (3, 45)
    refused(r"num_faces = 2 cannot be reached: .* end at 9 faces", simplify, parts, 2)
    assert simplify(parts, 2, exact=False).num_faces == 4 + 1 + 4
    refused("end at 42 faces", simplify, ball, 41)
    assert simplify(ball, 41, exact=False).num_faces == 42
    for count in (0, -3, 81):
        refused(f"num_faces must be from 1 to 80, got {count}", simplify, ball, count)


def test_faces_without_area_and_vertices_of_no_face_are_no_obstacle():
    mesh = shapes.icosphere(2)
    vertices = mesh.vertices.clone()
    vertices[mesh.faces[7, 0]] = vertices[mesh.faces[7, 1]]
    flat = TriangleMesh(vertices, mesh.faces)
    assert (measures(flat).area_faces == 0).any()
    simple = simplify(flat, 100)
    assert topology(simple) == topology(mesh)
    assert (measures(simple).area_faces > 0).all()
    stray = TriangleMesh(torch.cat([mesh.vertices, torch.full((1, 3), 1e9)]), mesh.faces)
    assert torch.equal(simplify(stray, 100).vertices, simplify(mesh, 100).vertices)


def test_fans_that_meet_at_a_vertex_part_and_no_manifold_is_refused():
    bow = TriangleMesh(torch.randn(5, 3), torch.tensor([[0, 1, 2], [0, 3, 4]]))
    simple = simplify(bow, 2)
    assert simple.num_vertices == 6
    torch.testing.assert_close(simple.vertices[simple.faces], bow.vertices[bow.faces])
    mesh = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 1, 3]]))
    refused("directed edge", simplify, mesh, 1, error=MeshError)
    refused("must be a TriangleMesh", simplify, mesh.faces, 1, error=TypeError)


def test_surfaces_that_meet_along_an_edge_without_joining_stay_apart():
    # Two spheres, of which an edge of each has the same two vertices: four faces meet there.
    one = shapes.icosphere(2)
    other = shapes.reversed_winding(shapes.moved(shapes.mirrored(one), (2.5, 0, 0)))
    both, (a, b) = shapes.union(one, other), one.faces[0, :2]
    # the mirrored edge has the same numbers in the other sphere; its vertices are exchanged
    faces = both.faces.clone()
    faces[faces == one.num_vertices + a] = a
    faces[faces == one.num_vertices + b] = b
    mesh = TriangleMesh(both.vertices, faces, pairs_of_faces(both.faces))
    simple = simplify(mesh, 300, generator())
    assert simple.num_faces == 300
    graph = PrimalDualGraph.from_mesh(simple)
    assert len(graph.undirected) == 450  # closed: three halves of an edge for each face
    assert max(components(graph.undirected, 300)) > 0


def test_a_cut_moebius_strip_is_simplified_in_its_pieces(tmp_path):
    # Two rows of faces, cut where the sides of the strip exchange, as load_mesh leaves it.
    n = 24
    t, w = np.arange(n) * 2 * np.pi / n, np.array([[-0.3], [0.0], [0.3]])
    r = 1 + w * np.cos(t / 2)
    vertices = np.stack([r * np.cos(t), r * np.sin(t), w * np.sin(t / 2)], axis=-1).reshape(-1, 3)
    number = np.arange(3 * n).reshape(3, n)
    right = np.concatenate([number[:, 1:], number[::-1, :1]], axis=1)
    a, b, c, d = number[:-1], right[:-1], right[1:], number[1:]
    faces = np.stack([a, b, c, a, c, d], axis=-1).reshape(-1, 3)
    (tmp_path / "moebius.obj").write_bytes(obj_text(vertices, faces))
    mesh, _ = load_mesh(tmp_path / "moebius.obj")
    whole = simplify(mesh, mesh.num_faces)
    simple = simplify(mesh, 48, generator())
    assert topology(simple) == topology(whole)
    assert PrimalDualGraph.from_mesh(simple).num_primal == 48


def test_fixed_vertices_stay_with_all_of_their_faces():
    mesh = shapes.icosphere(2)
    vertices, faces = mesh.vertices.numpy(), mesh.faces.numpy()
    fixed = vertices[:, 2] > 0.5
    assert fixed.any()
    positions, simple, origin = collapse_edges(vertices, faces, 180, fixed=fixed)
    assert len(simple) == 180
    stays = fixed[faces].sum(axis=1) >= 2
    assert np.isin(np.flatnonzero(stays), origin).all()
    kept = {tuple(p) for p in positions}
    assert all(tuple(p) in kept for p in vertices[fixed])
    everything = np.ones(len(vertices), bool)
    positions, simple, _ = collapse_edges(vertices, faces, 4, fixed=everything)
    np.testing.assert_array_equal(positions[simple], vertices[faces])


def test_a_smaller_weight_of_edges_gives_more_faces_to_relief():
    ticks = np.linspace(-1, 1, 25)
    x, y = (a.reshape(-1) for a in np.meshgrid(ticks, ticks))
    is_bump = np.hypot(x, y) < 0.4
    vertices = np.stack([x, y, 0.2 * is_bump], axis=1)
    first = (np.arange(24)[:, None] * 25 + np.arange(24)).reshape(-1, 1)
    faces = np.concatenate([first + np.array([0, 1, 26]), first + np.array([0, 26, 25])])
    shares = []
    for weight in (1.0, 1e-2, 1e-4):
        positions, simple, _ = collapse_edges(vertices, faces, 200, edge_weight=weight)
        heights = positions[:, 2][simple].max(axis=1)
        shares.append((heights > 0.02).mean())
    assert shares[0] < shares[1] < shares[2]


def test_the_smallest_surfaces_end_the_search():
    for shape in (shapes.tetrahedron(), shapes.triangle(), shapes.pillow()):
        arrays, random = (shape.vertices.numpy(), shape.faces.numpy()), np.random.default_rng(0)
        _, simple, origin = collapse_edges(*arrays, 1, random)
        np.testing.assert_array_equal(simple, shape.faces)
        np.testing.assert_array_equal(origin, np.arange(len(simple)))


def test_no_face_folds_and_slivers_are_neither_made_nor_kept():
    mesh = shapes.icosphere(3)
    vertices, faces = mesh.vertices.numpy(), mesh.faces.numpy()
    positions, simple, _ = collapse_edges(vertices, faces, 200, np.random.default_rng(0))
    corners = positions[simple]
    sides = np.roll(corners, -1, axis=1) - corners
    normals = np.cross(sides[:, 0], sides[:, 1])
    quality = 2 * 3**0.5 * np.linalg.norm(normals, axis=1) / (sides**2).sum(axis=(1, 2))
    assert quality.min() > 0.1
    assert (np.einsum("fi,fi->f", normals, corners.mean(axis=1)) > 0).all()
    tube = trimesh.creation.revolve([[1, 0], [1, 200]], sections=40)
    _, simple, _ = collapse_edges(np.array(tube.vertices), np.array(tube.faces), 60)
    assert len(simple) == 60


def test_subdivide_returns_four_faces_of_a_quarter_each_and_commutes_with_affine_maps():
    for mesh in (shapes.tetrahedron(), shapes.cube(), shapes.icosphere(1)):
        fine = subdivide(mesh)
        assert fine.num_faces == 4 * mesh.num_faces
        assert fine.num_vertices == mesh.num_vertices + 3 * mesh.num_faces // 2
        assert torch.equal(fine.vertices[: mesh.num_vertices], mesh.vertices)
        assert topology(fine) == topology(mesh)
        areas = np.repeat(measures(mesh).area_faces, 4) / 4
        assert np.allclose(measures(fine).area_faces, areas)
        g = torch.randn(4, 4, dtype=torch.float64)
        g[3] = torch.tensor([0.0, 0.0, 0.0, 1.0])
        assert torch.allclose(subdivide(mesh.act(g)).vertices, fine.act(g).vertices)


def test_subdivided_pairs_of_cut_and_of_equally_wound_faces_stay():
    whole = shapes.tetrahedron()  # two of its faces do not continue each other along an edge
    mesh = TriangleMesh(whole.vertices, whole.faces, edge_pairs(whole)[1:])
    fine = subdivide(mesh)
    assert fine.num_vertices == 4 + 6 + 1
    assert not topology(fine).closed
    assert topology(fine).euler == topology(mesh).euler
    # the pairs that it carries are those that vertices tell now
    assert torch.equal(edge_pairs(fine), pairs_of_faces(fine.faces))
    assert PrimalDualGraph.from_mesh(subdivide(fine)).num_primal == 64
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
    for name in ("euler", "closed", "oriented", "components"):
        assert getattr(fine, name) == getattr(before, name)


def test_an_empty_mesh_has_nothing_to_divide_and_what_is_no_manifold_is_refused():
    faces = torch.tensor([[0, 1, 2], [0, 1, 3]])
    refused("directed edge", subdivide, TriangleMesh(torch.eye(4, 3), faces), error=MeshError)
    refused("must be a TriangleMesh", subdivide, faces, error=TypeError)
    mesh = TriangleMesh(torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.long))
    assert subdivide(mesh).num_faces == 0


@pytest.mark.parametrize("factor", [0.1, 0.5, 1.0, 1.5, 2.0, 4.0])
def test_a_sphere_has_that_many_times_its_faces(factor):
    sphere = shapes.icosphere(2)
    other = with_resolution(sphere, factor, generator(0))
    assert other.num_faces == round(factor * 320)
    assert topology(other) == topology(sphere)
    # Half of what an inscribed polyhedron of 32 faces, the fewest here, lacks of a sphere: 5 / 32.
    assert measures(other).area == pytest.approx(measures(sphere).area, rel=0.08)


def test_finer_meshes_stay_on_the_surface_and_what_cannot_shrink_stays():
    cube = shapes.cube()
    one, other = (with_resolution(cube, 3.0, generator(k)) for k in range(2))
    for mesh in (one, other):
        assert measures(mesh).area == pytest.approx(6, rel=0.03)  # corners may be cut
    assert not torch.equal(one.faces, other.faces)
    assert with_resolution(shapes.tetrahedron(), 0.1).num_faces == 4
    assert with_resolution(shapes.triangle(), 0.1).num_faces == 1
    for factor in (0.0, -1.0, 4.5, float("nan")):
        refused("factor must be positive and at most 4", with_resolution, cube, factor)
