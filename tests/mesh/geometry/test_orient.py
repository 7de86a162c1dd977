import pytest
import torch
from hypothesis import given, settings

from equigeo.groups import O
from equigeo.mesh import MeshError, PrimalDualGraph, TriangleMesh
from equigeo.mesh.geometry.half_edges import HalfEdgeGeometry, pairs_of_faces
from equigeo.mesh.geometry.orient import orient
from equigeo.testing import tolerance
from tests.mesh import shapes
from tests.mesh.shapes import met_again
from tests.tier import tier
from tests.wrong_inputs import refused

CLOSED = [shapes.cube(), shapes.icosphere(1), shapes.torus(), shapes.closed_strip()]


def _normals(shape):
    corner = shape.vertices[shape.faces]
    return torch.linalg.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])


def _volume(shape, faces=slice(None)):
    return float(torch.linalg.det(shape.vertices[shape.faces[faces]]).sum()) / 6


def _bend(shape):
    """Return the total mean curvature up to a factor."""
    geometry = HalfEdgeGeometry.measure(shape.vertices, shape.faces)
    pairs = pairs_of_faces(shape.faces)
    bend = geometry.dihedral_angle(pairs) - torch.pi
    return (geometry.length.reshape(-1)[pairs[:, 0]] * bend).sum()


@pytest.mark.parametrize("shape", CLOSED)
def test_closed_parts_are_wound_outwards_whatever_vertices_of_no_face(shape):
    far = torch.cat([shape.vertices, torch.full((1, 3), 1e12, dtype=torch.float64)])
    expected = orient(shape).faces
    assert _volume(orient(shape)) > 0
    for faces in (shape.faces, shape.faces[:, [0, 2, 1]]):
        assert torch.equal(orient(TriangleMesh(shape.vertices, faces)).faces, expected)
        assert torch.equal(orient(TriangleMesh(far, faces)).faces, expected)


@given(shapes.meshes())
def test_faces_keep_their_places_and_corners(shape):
    oriented = orient(shape)
    assert torch.equal(oriented.vertices, shape.vertices)
    assert torch.equal(oriented.faces.sort(dim=1).values, shape.faces.sort(dim=1).values)
    assert torch.equal(orient(oriented).faces, oriented.faces)


@settings(max_examples=tier(10, 100))
@given(shapes.meshes(("sphere", "torus", "two parts")))
def test_orientation_commutes_with_rotations_and_reflections_and_forgets_the_winding(shape):
    expected = orient(shape)
    for g in O(3).testing_elements(torch.Generator().manual_seed(0)):
        moved = orient(shape.act(g))
        turned = bool(torch.linalg.det(g) < 0)
        outward = shapes.reversed_winding(expected) if turned else expected
        assert torch.equal(_normals(moved), _normals(outward.act(g)))
    rewound = orient(shapes.reversed_winding(shape))
    assert torch.equal(_normals(rewound), _normals(expected))


def test_every_part_is_turned_by_itself_if_wound_consistently():
    inward = shapes.reversed_winding(shapes.icosphere(1))
    outward = shapes.moved(shapes.cube(), (5, 0, 0))
    small = shapes.moved(shapes.scaled(shapes.reversed_winding(shapes.cube()), 1e-3), (-5, 2, 0))
    oriented = orient(shapes.union(inward, outward, small))
    expected = shapes.union(
        shapes.reversed_winding(inward), outward, shapes.reversed_winding(small)
    )
    assert torch.equal(oriented.faces, expected.faces)
    cube = shapes.cube()
    faces = cube.faces.clone()
    faces[3] = faces[3, [0, 2, 1]]
    refused("inconsistently wound", orient, shapes.mesh(cube.vertices, faces), error=MeshError)


def test_parts_that_touch_in_a_vertex_are_turned_separately():
    first = shapes.tetrahedron()
    second = shapes.mesh(
        torch.cat((first.vertices[:1], 3 * first.vertices[:1] - first.vertices[1:])),
        shapes.reversed_winding(first).faces,
    )
    joined = shapes.union(first, second)
    faces = torch.where(joined.faces == 4, 0, joined.faces)
    glued = shapes.mesh(joined.vertices, faces)
    one_turned = faces.clone()
    one_turned[:4] = one_turned[:4, [0, 2, 1]]
    expected = _normals(orient(glued))
    assert torch.equal(_normals(orient(shapes.mesh(joined.vertices, one_turned))), expected)


def test_mean_curvature_decides_for_open_parts_and_volume_for_closed_ones():
    bowl = shapes.bowl()  # the upper part of a sphere, normals away from the centre
    mirrored = orient(shapes.mirrored(bowl))
    assert torch.equal(mirrored.faces, shapes.reversed_winding(bowl).faces)
    sponge = shapes.sponge()
    assert float(_bend(sponge)) < 0
    for shape in (bowl, sponge):
        for wound in (shape, shapes.reversed_winding(shape)):
            assert torch.equal(orient(wound).faces, shape.faces)
    for height in (-100.0, 0.0, 100.0):  # other parts do not matter
        cube = shapes.moved(shapes.cube(), (5, 5, height))
        oriented = orient(shapes.union(shapes.reversed_winding(bowl), cube))
        assert torch.equal(oriented.faces, shapes.union(bowl, cube).faces)


@pytest.mark.parametrize(
    "shape", [shapes.strip(), shapes.triangle(), shapes.two_isolated(), shapes.pillow()]
)
def test_flat_parts_have_no_outside_and_are_left_alone(shape):
    for moved in (shape, shapes.reversed_winding(shape), shapes.turned(shape)):
        assert torch.equal(orient(moved).faces, moved.faces)


def test_an_open_part_without_mean_curvature_is_wound_by_its_larger_bends():
    # A floor, a step up and a shorter top: its two bends cancel in the total mean curvature.
    profile = [(-3.0, 0.0), (0.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    quads = [(2 * i, 2 * i + 1, 2 * i + 3, 2 * i + 2) for i in range(3)]
    faces = [f for a, b, c, d in quads for f in ((a, b, c), (a, c, d))]
    sheet = shapes.mesh([(x, y, z) for x, z in profile for y in (0.0, 1.0)], faces)
    total = _bend(sheet)
    torch.testing.assert_close(total, torch.zeros_like(total), **tolerance(torch.float64, 8))
    other = shapes.reversed_winding(sheet)
    turned = [not torch.equal(orient(each).faces, each.faces) for each in (sheet, other)]
    assert sorted(turned) == [False, True]
    mirror = torch.diag(torch.tensor([1.0, 1.0, -1.0]))
    graphs = [PrimalDualGraph.from_mesh(m) for m in (sheet, other, sheet.act(mirror))]
    for graph in graphs[1:]:
        torch.testing.assert_close(graph.x_dual, graphs[0].x_dual)


def test_walls_of_a_cavity_point_into_it() -> None:
    ball = shapes.icosphere(1)
    small = shapes.scaled(ball, 0.5)
    for inner in (small, shapes.reversed_winding(small)):
        oriented = orient(shapes.union(ball, inner))
        outer = _volume(oriented, slice(ball.num_faces))
        assert _volume(oriented, slice(ball.num_faces, None)) == pytest.approx(-outer / 8)
        assert outer > 0
    both = shapes.union(ball, shapes.moved(small, (3, 3, 3)))
    assert torch.equal(orient(both).faces, both.faces)


def test_pairs_turn_with_their_faces() -> None:
    mesh = met_again()
    assert mesh.pairs is not None
    turned = TriangleMesh(
        mesh.vertices, mesh.faces[:, [0, 2, 1]], mesh.pairs + 2 - 2 * (mesh.pairs % 3)
    )
    one, other = orient(mesh), orient(turned)
    assert torch.equal(one.faces, other.faces)
    assert torch.equal(one.pairs, other.pairs)
    mirrored = mesh.act(torch.diag(torch.tensor([1.0, 1.0, -1.0])))
    for graph in (PrimalDualGraph.from_mesh(turned), PrimalDualGraph.from_mesh(mirrored)):
        expected = PrimalDualGraph.from_mesh(mesh)
        assert torch.equal(graph.undirected, expected.undirected)
        torch.testing.assert_close(graph.x_dual, expected.x_dual)
