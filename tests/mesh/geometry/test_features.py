import itertools
import math

import pytest
import torch
import trimesh
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from equigeo.groups import Affine, O
from equigeo.mesh import DualKind, PrimalDualGraph, TriangleMesh, subdivide
from equigeo.mesh.geometry import features as module
from equigeo.mesh.geometry.features import (
    BALL_CHANNELS,
    BALL_RADII,
    ball_features,
    compute_features,
    feature_channels,
)
from equigeo.mesh.geometry.half_edges import HalfEdgeGeometry
from equigeo.mesh.geometry.orient import Surface, orient
from equigeo.reps import Trivial
from equigeo.testing import assert_equivariant, equivariance_error, tolerance
from tests.mesh import shapes
from tests.mesh.definitions import (
    F64,
    FULL_TURN,
    assert_close,
    directed_names,
    dual_nodes,
    edge_names,
    graph_of,
)
from tests.tier import tier

KINDS = list(DualKind)
DIRECTED = (DualKind.DOUBLE_UNDIRECTED, DualKind.DOUBLE_DIRECTED)
SETS = ("reference", "invariant")


def _features(shape, dual=DualKind.SINGLE, features="reference"):
    graph = graph_of(shape, dual, features)
    return graph.x_primal, graph.x_dual


def _named_rows(graph, order=None):
    """Dual features by the names of the faces they join, in the old numbering if there is one."""
    names = dual_nodes(graph.dual, edge_names(graph))
    if order is not None:
        names = [tuple(order[list(name)].tolist()) for name in names]
    if graph.dual is DualKind.SINGLE:
        names = [tuple(sorted(name)) for name in names]
    return {name: graph.x_dual[i] for i, name in enumerate(names)}


def test_reference_features_of_solids_and_two_faces_have_the_listed_values():
    for shape, angle in (
        (shapes.tetrahedron(), FULL_TURN - math.acos(1 / 3)),
        (shapes.octahedron(), FULL_TURN - math.acos(-1 / 3)),
        (shapes.icosahedron(), FULL_TURN - math.acos(-math.sqrt(5) / 3)),
    ):
        primal, dual = _features(shape)
        assert_close(primal, torch.full_like(primal, 1 / shape.num_faces))
        row = [angle, 2 / math.sqrt(3), 2 / math.sqrt(3), 1, 1, 1, 1]
        assert_close(dual, [row] * (3 * shape.num_faces // 2))
        inward = _features(shapes.reversed_winding(shape))[1]
        assert_close(inward, [[FULL_TURN - angle, *row[1:]]] * len(dual))
    for degrees in (45, 90, 135, 180, 225, 270, 315):
        angle = math.radians(degrees)
        graph = graph_of(shapes.two_faces(angle))
        low, high, edge = 1 / math.sqrt(3), 2 / math.sqrt(3), 1 / math.sqrt(3.25)
        assert_close(graph.x_dual, [[angle, low, high, edge, 1, edge, 1]])
        assert_close(graph.x_primal, [[2 / 3], [1 / 3]])
        assert graph.dual_edges.num_edges == 0


@pytest.mark.parametrize("dual", DIRECTED)
def test_the_strip_has_the_listed_directed_features(dual):
    graph = graph_of(shapes.strip(), dual)
    assert_close(graph.x_primal, [[1 / 8]] * 8)
    expected = torch.tensor([[math.pi, 2 / math.sqrt(3), 1, 1]], dtype=F64).repeat(18, 1)
    for source, target, channel in ((3, 2, 2), (7, 6, 2), (3, 4, 3), (7, 0, 3)):
        row = graph.edge_to_dual[directed_names(graph).index((source, target))]
        expected[row, channel] = 1 / math.sqrt(3)
    assert_close(graph.x_dual, expected)


@given(st.sampled_from(SETS), shapes.meshes())
def test_both_directions_of_a_pair_share_the_angle(features, shape):
    directed = graph_of(shape, DualKind.DOUBLE_DIRECTED, features).x_dual
    x = directed.unflatten(0, (-1, 2))[:, :, : 2 if features == "invariant" else 1]
    assert torch.equal(x[:, 0], x[:, 1])
    assert torch.equal(x[:, 0], graph_of(shape, DualKind.SINGLE, features).x_dual[:, : x.shape[2]])


@given(shapes.meshes())
def test_single_rows_list_the_side_of_the_smaller_edge_height_ratio_first(shape):
    single = graph_of(shape)
    directed = graph_of(shape, DualKind.DOUBLE_DIRECTED).x_dual.reshape(-1, 2, 4)
    for row, (lower, higher) in zip(single.x_dual, directed, strict=True):
        first, second = (lower, higher) if lower[1] < higher[1] else (higher, lower)
        pairs = [(first[k], second[k]) for k in (1, 2, 3)]
        expected = torch.stack([lower[0], *(value for pair in pairs for value in pair)])
        assert torch.equal(row, expected)


@given(shapes.meshes(("sphere", "torus", "open")))
def test_invariant_rows_are_symmetric_functions_of_logarithms(shape):
    shape = orient(shape)
    single = graph_of(shape, features="invariant").x_dual
    angle, *ratios = graph_of(shape, DualKind.DOUBLE_DIRECTED).x_dual.reshape(-1, 2, 4).unbind(2)
    k, before, after = (ratio.log() for ratio in ratios)
    sides = torch.stack((k, torch.minimum(before, after), torch.maximum(before, after)), dim=2)
    assert_close(single[:, 0], angle[:, 0].cos())
    assert_close(single[:, 1], angle[:, 0].sin())
    assert_close(single[:, 2:5], sides.mean(dim=1))
    assert_close(single[:, 5:], (sides[:, 0] - sides[:, 1]).abs())


@pytest.mark.parametrize("features", SETS)
def test_areas_sum_to_one_or_to_the_number_of_faces_in_every_mesh_of_a_batch(features):
    parts = [shapes.lumpy(shapes.icosphere(1)), shapes.scaled(shapes.bowl(), 7.0)]
    batch = PrimalDualGraph.batch([graph_of(part, features=features) for part in parts])
    share = batch.x_primal[:, 0].exp() if features == "invariant" else batch.x_primal[:, 0]
    total = torch.zeros(2, dtype=F64).index_add(0, batch.primal_batch, share)
    expected = [part.num_faces for part in parts] if features == "invariant" else [1, 1]
    assert_close(total / torch.tensor(expected), [1, 1], terms=143)


@pytest.mark.parametrize("features", SETS)
def test_rotation_translation_and_scale_leave_features_alone(features):
    shape = shapes.lumpy(shapes.icosphere(1))
    others = [shapes.scaled(shape, f) for f in (7.0, 1e-12, 1e12, 1e-160, 1e160, 1e-290, 1e290)]
    for dual in KINDS:
        expected = _features(shape, dual, features)
        for moved in (shapes.moved(shapes.turned(shape), (3, -2, 5)), *others):
            found = _features(moved, dual, features)
            torch.testing.assert_close(found, expected, **tolerance(F64, 64, 10))


def test_reflection_and_winding_act_on_published_features_as_listed():
    shape = shapes.lumpy(shapes.icosphere(1))
    area, rows = _features(shape, DualKind.DOUBLE_DIRECTED)
    angle, k, before, after = rows.unbind(1)
    flipped = FULL_TURN - angle
    listed = {
        (True, False): (flipped, k, before, after),
        (False, True): (flipped, k, after, before),
        (True, True): (angle, k, after, before),
    }
    for (mirror, rewind), columns in listed.items():
        other = shapes.mirrored(shape) if mirror else shape
        other = shapes.reversed_winding(other) if rewind else other
        got_area, got = _features(other, DualKind.DOUBLE_DIRECTED)
        assert_close(got_area, area, terms=64)
        assert_close(got, torch.stack(columns, dim=1), terms=64)


def test_invariant_features_see_neither_reflection_nor_winding():
    def features(moved):
        x_primal, x_dual = _features(moved, dual, "invariant")
        return x_primal.exp(), x_dual  # equal areas have a logarithm of zero, up to rounding

    several = [
        *(shapes.bowl(), shapes.strip(), shapes.lumpy(shapes.icosphere(1))),
        *(shapes.torus(), shapes.lumpy(shapes.torus(5, 4))),
        shapes.union(shapes.bowl(), shapes.reversed_winding(shapes.cube())),
    ]
    every = [*itertools.product(KINDS, several)]
    for dual, shape in tier([*every[:6], every[6], every[12]], every):
        rep_out = [Trivial(O(3), width) for width in feature_channels(dual, "invariant")]
        assert_equivariant(features, rep_out=rep_out, inputs=[shape], condition=10)
        rewound = features(shapes.reversed_winding(shape))
        torch.testing.assert_close(rewound, features(shape), **tolerance(F64, 64))


@given(st.sampled_from(SETS), shapes.kinds, shapes.meshes(), shapes.seeds)
def test_renumbering_permutes_features_of_meshes_in_general_position(features, dual, shape, seed):
    ratio = HalfEdgeGeometry.measure(shape.vertices, shape.faces).edge_height_ratio()
    assume(features != "reference" or float(ratio.max()) < 50)  # two clamped sides are tied
    graph = graph_of(shape, dual, features)
    vertices = shapes.permutation(shape.num_vertices, seed)
    faces = shapes.permutation(shape.num_faces, seed)
    for other, order in (
        (shapes.renumbered_vertices(shape, vertices), None),
        (shapes.shifted_corners(shape, faces % 3), None),
        (shapes.renumbered_faces(shape, faces), faces),
    ):
        renumbered = graph_of(other, dual, features)
        rows = _named_rows(renumbered, order)
        torch.testing.assert_close(rows, _named_rows(graph), **tolerance(F64, 64, 1e3))
    assert_close(renumbered.x_primal, graph.x_primal[faces], terms=64)


def test_only_the_tie_rule_of_the_reference_depends_on_face_numbers():
    def change(features):
        shape, worst = shapes.cube(), 0.0
        rows = _named_rows(graph_of(shape, features=features))
        for seed in range(10):
            order = shapes.permutation(12, seed)
            renumbered = graph_of(shapes.renumbered_faces(shape, order), features=features)
            for name, row in _named_rows(renumbered, order).items():
                worst = max(worst, float((row - rows[name]).abs().max()))
        return torch.tensor(worst, dtype=F64)

    assert float(change("invariant")) <= tolerance(F64)["atol"]
    assert_close(change("reference"), 1 - math.sqrt(0.5))


def test_ties_that_only_rounding_breaks_do_not_change_features():
    # Every rotation rounds the equal ratios of a cube in its own way, and of two faces that are
    # folded onto each other it decides on which side one lies.
    cube, pillow = shapes.cube(), shapes.pillow()
    for shape, dual in [(cube, DualKind.SINGLE), *((pillow, dual) for dual in KINDS)]:
        expected = graph_of(shape, dual, "invariant").x_dual
        for seed in range(10):
            got = graph_of(shapes.turned(shape, seed), dual, "invariant").x_dual
            assert_close(got, expected, terms=64)


def test_two_faces_that_share_several_edges_have_one_dual_node_of_mean_features():
    graph = graph_of(shapes.pillow())
    assert (graph.num_dual, graph.primal.num_edges, graph.dual_edges.num_edges) == (1, 2, 0)
    k = (3 / 4 + 25 / 12 + 4 / 3) / 3
    one_way, other_way = (3 / 4 + 5 / 3 + 4 / 5) / 3, (3 / 5 + 5 / 4 + 4 / 3) / 3
    row = graph.x_dual[0]
    assert_close(row[:3], [0, k, k])
    # one winding reads the sides in the other order, and equal k leave the order of sides open
    assert_close(row[[3, 4]].sort().values, sorted((one_way, other_way)))
    assert_close(row[[5, 6]].sort().values, sorted((one_way, other_way)))
    directed = graph_of(shapes.pillow(), DualKind.DOUBLE_DIRECTED)
    assert directed.num_dual == 2
    assert_close(directed.x_dual, [[0, k, one_way, other_way], [0, k, other_way, one_way]])


def test_announced_channels_are_measured_without_neighbours_too_and_unknown_sets_raise():
    for features, dual in itertools.product(SETS, KINDS):
        for shape in (shapes.bowl(), shapes.triangle()):
            widths = [x.shape[1] for x in _features(shape, dual, features)]
            assert tuple(widths) == feature_channels(dual, features)
    published = [feature_channels(dual, "reference") for dual in KINDS]
    assert published == [(1, 7), (1, 4), (1, 4)]
    graph = graph_of(shapes.triangle())
    assert_close(graph.x_primal, [[1]])
    assert graph.x_dual.shape == (0, 7)
    assert graph_of(shapes.two_isolated(), DualKind.DOUBLE_DIRECTED).x_dual.shape == (0, 4)
    with pytest.raises(ValueError, match=r"features must be one of.*'curvature'"):
        compute_features(Surface.from_mesh(shapes.cube()), DualKind.SINGLE, "curvature")


@pytest.mark.parametrize("features", SETS)
def test_faces_without_area_have_finite_features(features):
    cube = shapes.cube()
    vertices = cube.vertices.clone()
    vertices[1] = vertices[0]  # two faces collapse to segments
    for dual, places in itertools.product(KINDS, (vertices, vertices * 0)):
        for x in _features(shapes.mesh(places, cube.faces), dual, features):
            assert bool(torch.isfinite(x).all())


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("places", [(0.3,), (0.3, 0.3 + 1e-15), (0.3, 0.3)])
def test_faces_without_area_move_no_feature_under_rotation(dtype, places):
    a, b, c, d = range(4)
    corners = [[0.1, 0.2, 0.3], [1.1, 0.7, 0.4], [0.3, 1.0, 0.0], [0.9, -0.8, 0.7]]
    line = torch.tensor(corners[:2], dtype=F64)
    between = [line[0] + place * (line[1] - line[0]) for place in places]
    chain = [a, *range(4, 4 + len(places)), b]
    faces = [[a, b, c]]
    faces += [[chain[n + 1], chain[n], d] for n in range(len(chain) - 1)]
    faces += [[b, chain[n], chain[n + 1]] for n in range(len(chain) - 2)]  # a fan on the line
    vertices = torch.cat((torch.tensor(corners, dtype=F64), torch.stack(between)))
    shape = shapes.mesh(vertices, faces)
    expected = PrimalDualGraph.from_mesh(shape, dtype=dtype)
    assert float(expected.x_primal.min()) == pytest.approx(math.log(1e-4))
    bound = tolerance(dtype, 4)
    for g in O(3).sample(10, generator=torch.Generator().manual_seed(0)):
        moved = PrimalDualGraph.from_mesh(shape.act(100 * g), dtype=dtype)
        torch.testing.assert_close(moved.x_primal, expected.x_primal, **bound)
        # rounding of areas, some 1e-16, over the 1e-9 by which a normal becomes sure
        torch.testing.assert_close(moved.x_dual, expected.x_dual, **bound | {"atol": 1e-6})


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


@pytest.mark.parametrize("features", ["invariant", "multiscale"])
def test_own_inputs_have_gradients(features):
    mesh = shapes.tetrahedron()
    given = torch.rand(mesh.num_vertices, dtype=F64).requires_grad_()
    mesh = TriangleMesh(mesh.vertices, mesh.faces, inputs={"u": given})
    graph = PrimalDualGraph.from_mesh(mesh, features=features, inputs=("u",))
    assert torch.autograd.grad(graph.x_dual.sum(), given)[0].all()


def test_a_face_is_divided_into_congruent_parts_of_its_own():
    corner = torch.tensor([[[0.0, 0, 0], [0.3, 0, 0], [0, 0.28, 0]]], dtype=F64)
    share, normal = torch.ones(1, dtype=F64), torch.tensor([[0.0, 0, 1]], dtype=F64)
    points = module._divide(corner, share, normal)
    moments = points.moments()
    pieces = math.ceil(math.hypot(0.3, 0.28) / 0.05)
    assert_close(moments[:, 0], torch.full((pieces**2,), 1 / pieces**2, dtype=F64))
    assert_close(moments[:, 1:4].sum(dim=0), corner[0].mean(dim=0), terms=100)
    # centers of the upright parts and of those upside down, in steps of a third of a piece
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


@pytest.mark.parametrize("largest", [3, 40, 10**15])
def test_distinct_rows_are_those_of_unique(largest):
    rows = torch.randint(-largest, largest, (500, 3), generator=torch.Generator().manual_seed(0))
    rows = torch.cat((rows, rows[::3]))
    for found, expected in zip(
        module._distinct(rows), rows.unique(dim=0, return_inverse=True), strict=True
    ):
        assert torch.equal(found, expected)
