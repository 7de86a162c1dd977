import math

import pytest
import torch
import trimesh
from hypothesis import given, settings

from equigeo.groups import Affine, O
from equigeo.mesh import DualKind, PrimalDualGraph, subdivide
from equigeo.mesh.geometry import features as module
from equigeo.mesh.geometry.features import BALL_CHANNELS, BALL_RADII, ball_features
from equigeo.mesh.geometry.orient import Surface
from equigeo.reps import Trivial
from equigeo.testing import assert_equivariant, equivariance_error, tolerance
from tests.mesh import shapes
from tests.mesh.definitions import F64, assert_close, graph_of
from tests.tier import tier

RHO = 1 / math.sqrt(4 * math.pi)  # radius of a sphere of area 1
FLOOR = 1e-5  # what is added to variances, in squared radii
# Variances are differences of squares of positions of up to a half, 39 in squares of the least
# radius, and the root of one near the floor multiplies rounding by 1 / (2 sqrt(FLOOR)) = 158.
CLOSE = tolerance(F64, condition=39 * 158)["atol"]


def _measured(shape):
    return ball_features(Surface.from_mesh(shape))


def _by_radius(x):
    """All channels but the last, (faces, radii, channels of a radius)."""
    return x[:, :-1].unflatten(1, (len(BALL_RADII), -1))


def _spread(variance):
    return math.sqrt(variance + FLOOR)


def _sphere(radius):
    """Closed forms for balls of less than the diameter, from the moments of d^2 and d^4.

    Within chord distance d a sphere has the area pi d^2, so that the weight (1 - t^2)^2 gives
    t^2 = d^2 / r^2 the mean 1/4 and its square the mean 1/10, as on a plane. A point at chord
    distance d lies d^2 / (2 rho) below the tangent plane.
    """
    bend = radius / RHO
    normal, lead = 1 - bend**2 / 8, bend / 8
    across = _spread(1 / 8 - bend**2 / 80)
    upright = _spread((1 / 10 - 1 / 16) * bend**2 / 4)
    return [0, -lead * normal, normal, lead, upright, across, across]


@pytest.mark.parametrize(
    ("subdivisions", "bound"), tier([(2, 0.022), (3, 0.016)], [(2, 0.022), (3, 0.016), (4, 0.004)])
)
def test_on_a_sphere_the_channels_have_their_closed_forms(subdivisions, bound):
    x = _measured(shapes.icosphere(subdivisions))
    expected = torch.tensor([_sphere(radius) for radius in BALL_RADII[:3]], dtype=F64)
    assert float((_by_radius(x)[:, :3] - expected).abs().max()) < bound
    assert float((x[:, -1] - RHO).abs().max()) < 0.01
    # a ball around the whole sphere, which the closed forms are not for, sees another normal
    assert abs(float(_by_radius(x)[:, 3, 2].mean()) - _sphere(BALL_RADII[3])[2]) > 0.01


def test_in_a_flat_square_the_channels_are_those_of_a_plane():
    square = shapes.mesh([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)], [(0, 1, 2), (0, 2, 3)])
    for _ in range(5):
        square = subdivide(square)
    inside = (square.vertices[square.faces].mean(dim=1)[:, :2] - 0.5).abs().amax(dim=1) < 0.1
    x = _by_radius(_measured(square))[:, :3]
    plane = torch.tensor([0, 0, 1, 0, _spread(0), _spread(1 / 8), _spread(1 / 8)], dtype=F64)
    assert float((x[inside] - plane).abs().max()) < 0.01
    assert float(x[~inside][:, 2, 0].min()) < -0.5  # balls over the boundary hold less


@pytest.mark.parametrize("name", ["cube", "torus", "bowl"])
def test_a_subdivided_mesh_keeps_its_features(name):
    shape = getattr(shapes, name)()
    coarse, before, after = shape, _measured(shape), None
    for _ in range(2):
        shape = subdivide(shape)
    after = _measured(shape)
    places = coarse.vertices[coarse.faces].mean(dim=1)
    fine = shape.vertices[shape.faces].mean(dim=1)
    same = torch.cdist(places, fine).argmin(dim=1)
    assert float((places - fine[same]).abs().max()) < tolerance(F64, 3)["atol"]
    assert float((before - after[same]).abs().max()) < 0.03


def test_two_tessellations_of_a_sphere_agree_where_features_of_one_ring_do_not():
    uv_sphere = shapes.hull(trimesh.creation.uv_sphere(count=[25, 15]).vertices)
    meshes = (shapes.icosphere(3), shapes.icosphere(2), uv_sphere)
    for shape in meshes[1:]:
        change = _measured(shape).mean(dim=0) - _measured(meshes[0]).mean(dim=0)
        assert float(change.abs().max()) < 0.015
        one_ring = [graph_of(s, features="invariant").x_dual.mean(dim=0) for s in (shape, *meshes)]
        assert float((one_ring[0] - one_ring[1]).abs().max()) > 0.05


@pytest.mark.parametrize("dual", tier([DualKind.SINGLE], [*DualKind]))
def test_features_of_a_graph_are_invariant_to_motions_reflections_and_scale(dual):
    def features(moved):
        graph = graph_of(moved, dual, "multiscale")
        return graph.x_primal, graph.x_dual

    rep_out = [Trivial(Affine(O(3)), BALL_CHANNELS)] * 2
    lumpy = shapes.lumpy(shapes.icosphere(1))
    for shape in (lumpy, shapes.torus(), shapes.bowl(), shapes.cube()):
        assert_equivariant(features, rep_out=rep_out, inputs=[shape], condition=1e3)
        expected = features(shape)
        for factor in (1e-6, 1e6):
            scaled = features(shapes.scaled(shape, factor))
            torch.testing.assert_close(scaled, expected, rtol=0, atol=CLOSE)
        for factor in (1e-150, 1e150):
            scaled = _measured(shapes.scaled(shape, factor))
            torch.testing.assert_close(scaled, _measured(shape), rtol=0, atol=CLOSE)


def test_on_a_surface_that_nobody_wound_the_sign_follows_the_winding():
    shape = shapes.lumpy(shapes.icosphere(1))
    rep_out = Trivial(O(3), BALL_CHANNELS)
    assert equivariance_error(_measured, rep_out=rep_out, inputs=[shape]) > 1e-2
    turned = _measured(shapes.reversed_winding(shape))
    signed = [7 * k + 1 for k in range(len(BALL_RADII))]
    assert_close(turned[:, signed], -_measured(shape)[:, signed], terms=64, condition=1e2)


@settings(max_examples=10)
@given(shape=shapes.meshes(), seed=shapes.seeds)
def test_renumbering_permutes_features(shape, seed):
    expected = _measured(shape)
    order = shapes.permutation(shape.num_faces, seed)
    other = shapes.renumbered_faces(shape, order)
    other = shapes.shifted_corners(other, shapes.permutation(shape.num_faces, seed + 1) % 3)
    other = shapes.renumbered_vertices(other, shapes.permutation(shape.num_vertices, seed))
    assert float((_measured(other) - expected[order]).abs().max()) < CLOSE


def test_a_batch_has_the_features_of_its_meshes_and_pairs_those_of_their_faces():
    several = [shapes.bowl(), shapes.mesh(torch.zeros(1, 3), []), shapes.torus()]
    graphs = [graph_of(shape, features="multiscale") for shape in several]
    together = ball_features(PrimalDualGraph.batch(graphs).surface)
    assert torch.equal(together, torch.cat([graph.x_primal for graph in graphs]))
    assert together.shape == (sum(shape.num_faces for shape in several), BALL_CHANNELS)
    shape = shapes.torus()
    faces = graph_of(shape, features="multiscale").x_primal
    single = graph_of(shape, DualKind.SINGLE, "multiscale")
    assert torch.equal(single.x_dual, faces[single.undirected].mean(dim=1))
    for kind in (DualKind.DOUBLE_DIRECTED, DualKind.DOUBLE_UNDIRECTED):
        double = graph_of(shape, kind, "multiscale")
        assert torch.equal(double.x_dual, faces[double.undirected.reshape(-1)])


def test_faces_without_area_change_nothing_and_have_features_themselves():
    shape = shapes.lumpy(shapes.icosphere(1))
    first = shape.vertices[shape.faces[0]].mean(dim=0, keepdim=True)
    vertices = torch.cat((shape.vertices, first.expand(3, 3)))
    last = shape.num_vertices
    flat = shapes.mesh(vertices, [*shape.faces.tolist(), [last, last + 1, last + 2]])
    x = _measured(flat)
    assert_close(x[:-1], _measured(shape), terms=64, condition=1e3)
    assert_close(x[-1], x[0], terms=64, condition=1e3)
    assert not bool(_measured(shapes.mesh(torch.ones(3, 3), [(0, 1, 2)])).any())


def test_a_face_is_divided_into_congruent_parts_of_its_own():
    corner = torch.tensor([[[0.0, 0, 0], [0.3, 0, 0], [0, 0.28, 0]]], dtype=F64)
    share, normal = torch.ones(1, dtype=F64), torch.tensor([[0.0, 0, 1]], dtype=F64)
    points = module._divide(corner, share, normal)
    pieces = math.ceil(math.hypot(0.3, 0.28) / 0.05)
    assert_close(points.moments[:, 0], torch.full((pieces**2,), 1 / pieces**2, dtype=F64))
    assert_close(points.moments[:, 1:4].sum(dim=0), corner[0].mean(dim=0), terms=100)
    # centres of the upright parts and of those upside down, in steps of a third of a piece
    upright = [(3 * i + 1, 3 * j + 1) for i in range(pieces) for j in range(pieces - i)]
    down = [(3 * i + 2, 3 * j + 2) for i in range(pieces) for j in range(pieces - 1 - i)]
    expected = torch.tensor([*upright, *down]) * torch.tensor([0.3, 0.28], dtype=F64) / 3 / pieces
    apart = (points.position[:, None, :2] - expected).abs().amax(dim=2)
    assert apart.shape == (pieces**2, pieces**2)
    for axis in (0, 1):
        assert float(apart.amin(dim=axis).max()) < tolerance(F64, 3)["atol"]


def test_a_thousand_needles_do_not_make_a_million_points():
    tube = trimesh.creation.revolve([[1e-2, 0], [1e-2, 10]], sections=500)
    tube = shapes.mesh(tube.vertices, tube.faces)
    assert bool(torch.isfinite(_measured(tube)).all())
    corner = tube.vertices[tube.faces]
    cross = torch.linalg.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]) / 2
    area = cross.norm(dim=1)
    points = module._divide(corner / area.sum().sqrt(), area / area.sum(), cross / area.sum())
    assert len(points.position) < 20_000


def test_cells_of_large_meshes_are_bounded_and_change_features_little(monkeypatch):
    shape = shapes.torus(48, 24)
    expected = _measured(shape)
    monkeypatch.setattr(module, "_LARGEST", 1500)
    got = _measured(shape)
    change = (got - expected).abs()
    assert 0 < float(change.mean()) < 0.01
    assert float(change.max()) < 0.1
    for seed in range(2):
        assert float((_measured(shapes.turned(shape, seed)) - got).abs().mean()) < 0.03
    monkeypatch.setattr(module, "_LARGEST", 10)
    parts = [shapes.moved(shapes.tetrahedron(), (1e6 * 2.0**i, 0, 0)) for i in range(20)]
    assert bool(torch.isfinite(_measured(shapes.union(*parts))).all())
