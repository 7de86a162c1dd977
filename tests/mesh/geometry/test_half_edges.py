"""Half-edges, their twins and counts, and ratios and angles along them."""

import math

import pytest
import torch
import trimesh
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import MeshError, PrimalDualGraph
from equigeo.mesh.geometry.half_edge_geometry import HalfEdgeGeometry
from equigeo.mesh.geometry.half_edges import HalfEdges
from tests.mesh import shapes
from tests.mesh.definitions import F64, FULL_TURN, assert_close, shared_edges
from tests.mesh.repair.met_again import met_again


def _ends(faces: torch.Tensor) -> torch.Tensor:
    return torch.stack((faces, faces.roll(-1, dims=1)), dim=-1).reshape(-1, 2)


@given(shapes.meshes())
def test_twins_run_between_the_same_vertices_in_opposite_directions(shape):
    twin = HalfEdges.from_faces(shape.faces).twin
    paired = torch.nonzero(twin >= 0).flatten()
    ends = _ends(shape.faces)
    assert torch.equal(ends[paired], ends[twin[paired]].flip(1))
    assert torch.equal(twin[twin[paired]], paired)
    assert bool((twin[paired] // 3 != paired // 3).all())


@given(shapes.meshes())
def test_pairs_are_the_shared_edges_sorted_with_the_lower_face_first(shape):
    pairs = HalfEdges.from_faces(shape.faces).pairs()
    expected = shared_edges(shape)
    assert [tuple(row) for row in (pairs // 3).tolist()] == sorted(expected)
    assert [tuple(row) for row in pairs.tolist()] == [expected[key][0] for key in sorted(expected)]


def test_closed_meshes_obey_eulers_formula():
    balls = [shapes.tetrahedron(), shapes.octahedron(), shapes.cube(), shapes.icosahedron()]
    balls += [shapes.icosphere(1), shapes.random_hull(0, 252), shapes.closed_strip()]
    for shape, characteristic in [*((ball, 2) for ball in balls), (shapes.torus(), 0)]:
        half_edges = HalfEdges.from_faces(shape.faces)
        edges = len(half_edges.pairs())
        assert int(half_edges.twin.min()) >= 0
        assert 2 * edges == 3 * shape.num_faces
        assert shape.num_vertices - edges + shape.num_faces == characteristic


def test_the_strip_has_nine_interior_and_six_boundary_edges():
    shape = shapes.strip()
    half_edges = HalfEdges.from_faces(shape.faces)
    boundary, interior = int((half_edges.twin < 0).sum()), len(half_edges.pairs())
    assert (interior, boundary) == (9, 6)
    assert [tuple(row) for row in (half_edges.pairs() // 3).tolist()] == shapes.STRIP_EDGES
    assert shape.num_vertices - (interior + boundary) + shape.num_faces == 1


@given(shapes.meshes(("open", "isolated face")))
def test_open_meshes_have_three_half_edges_per_face(shape):
    half_edges = HalfEdges.from_faces(shape.faces)
    boundary = int((half_edges.twin < 0).sum())
    assert 3 * shape.num_faces == 2 * len(half_edges.pairs()) + boundary
    assert boundary > 0


def test_the_closed_strip_has_the_listed_adjacencies():
    pairs = HalfEdges.from_faces(shapes.closed_strip().faces).pairs()
    assert [tuple(row) for row in (pairs // 3).tolist()] == shapes.CLOSED_STRIP_EDGES


@given(shapes.meshes(), shapes.seeds)
def test_renumbering_permutes_the_pairing(shape, seed):
    twin = HalfEdges.from_faces(shape.faces).twin
    order = shapes.permutation(shape.num_vertices, seed)
    renumbered = shapes.renumbered_vertices(shape, order)
    assert torch.equal(HalfEdges.from_faces(renumbered.faces).twin, twin)
    order = shapes.permutation(shape.num_faces, seed)
    got = HalfEdges.from_faces(shape.faces[order]).twin
    old = (3 * order[:, None] + torch.arange(3)).flatten()  # old number of each half-edge
    back = torch.where(got >= 0, old[got.clamp_min(0)], -1)
    assert torch.equal(back, twin[old])


def test_two_triangles_glued_along_all_edges_have_three_pairs():
    assert (HalfEdges.from_faces(shapes.pillow().faces).pairs() // 3).tolist() == [[0, 1]] * 3


def test_single_faces_and_empty_meshes_have_no_pairs():
    assert HalfEdges.from_faces(shapes.triangle().faces).twin.tolist() == [-1, -1, -1]
    empty = HalfEdges.from_faces(torch.empty(0, 3, dtype=torch.int64))
    assert empty.twin.shape == (0,)
    assert empty.pairs().shape == (0, 2)


@pytest.mark.parametrize(
    "faces",
    [
        pytest.param([(0, 1, 2), (0, 1, 3)], id="two faces wound against each other"),
        pytest.param([(0, 1, 2), (1, 0, 3), (0, 1, 4)], id="three faces at one edge"),
        pytest.param([(0, 1, 2), (0, 1, 2)], id="a face twice"),
        pytest.param([(0, 1, 2), (1, 2, 0)], id="a face twice, shifted"),
        pytest.param([(0, 1, 2), (0, 0, 3)], id="a repeated index"),
        pytest.param([(0, 1, 0)], id="a face of two vertices"),
    ],
)
def test_faces_that_are_no_oriented_manifold_are_refused(faces):
    shape = shapes.mesh(torch.eye(5, 3), faces)
    with pytest.raises(MeshError, match=r"face \d"):
        PrimalDualGraph.from_mesh(shape)


def test_half_edges_are_those_that_the_mesh_says() -> None:
    mesh = met_again()
    half_edges = HalfEdges.from_mesh(mesh)
    assert mesh.pairs is not None
    assert half_edges.crowded is None
    found = {frozenset(pair) for pair in half_edges.pairs().tolist()}
    assert found == {frozenset(pair) for pair in mesh.pairs.tolist()}
    twin = half_edges.twin
    paired = torch.nonzero(twin >= 0)[:, 0]
    assert torch.equal(twin[twin[paired]], paired)
    cube = shapes.cube()
    assert torch.equal(HalfEdges.from_mesh(cube).twin, HalfEdges.from_faces(cube.faces).twin)


def _measure(shape):
    geometry = HalfEdgeGeometry.measure(shape.vertices, shape.faces)
    pairs = HalfEdges.from_faces(shape.faces).pairs()
    return geometry, pairs, geometry.dihedral_angle(pairs)


def _slenderness(geometry):
    """By how much a normal amplifies rounding errors: squared length over twice the area."""
    return float((geometry.length.square() / (2 * geometry.area[:, None])).max())


def test_two_faces_meet_at_the_angle_they_were_built_with():
    for degrees in (45, 90, 135, 180, 225, 270, 315):
        geometry, pairs, angle = _measure(shapes.two_faces(math.radians(degrees)))
        assert_close(angle, [math.radians(degrees)])
        ratio = geometry.edge_height_ratio().reshape(-1)[pairs[0]]
        assert_close(ratio, [1 / math.sqrt(3), 2 / math.sqrt(3)])
        for edge_ratio in geometry.edge_edge_ratios():
            assert_close(edge_ratio.reshape(-1)[pairs[0]], [1 / math.sqrt(3.25), 1])
        assert_close(geometry.area / geometry.area.sum(), [2 / 3, 1 / 3])


def test_the_3_4_5_triangle_has_the_listed_ratios():
    geometry, pairs, _ = _measure(shapes.triangle())
    assert len(pairs) == 0
    assert_close(geometry.length, [[3, 5, 4]])
    assert_close(geometry.edge_height_ratio(), [[3 / 4, 25 / 12, 4 / 3]])
    before, after = geometry.edge_edge_ratios()
    assert_close(before, [[3 / 4, 5 / 3, 4 / 5]])
    assert_close(after, [[3 / 5, 5 / 4, 4 / 3]])


def test_outward_platonic_solids_are_convex_by_their_dihedral_angle():
    for shape, angle in (
        (shapes.tetrahedron(), FULL_TURN - math.acos(1 / 3)),
        (shapes.octahedron(), FULL_TURN - math.acos(-1 / 3)),
        (shapes.icosahedron(), FULL_TURN - math.acos(-math.sqrt(5) / 3)),
    ):
        geometry, _, measured = _measure(shape)
        assert_close(measured, torch.full_like(measured, angle))
        ratio = geometry.edge_height_ratio()
        assert_close(ratio, torch.full_like(ratio, 2 / math.sqrt(3)))
        inside = _measure(shapes.reversed_winding(shape))[2]
        assert_close(inside, torch.full_like(inside, FULL_TURN - angle))


def test_a_cube_has_twelve_right_and_six_flat_angles():
    geometry, _, angle = _measure(shapes.cube())
    assert_close(angle.sort().values, [math.pi] * 6 + [1.5 * math.pi] * 12)
    assert_close(geometry.edge_height_ratio().sort(dim=1).values, [[1, 1, 2]] * 12)


def test_the_once_subdivided_icosphere_has_the_listed_values():
    geometry, _, angle = _measure(shapes.icosphere(1))
    six_places = lambda x: sorted({round(value, 6) for value in x.flatten().tolist()})  # noqa: E731
    assert six_places(angle) == [3.45626, 3.533575]
    assert six_places(geometry.edge_height_ratio()) == [1.07214, 1.154701, 1.371018]
    assert six_places(geometry.area / geometry.area.sum()) == [0.011941, 0.014178]


@given(shapes.meshes())
def test_ratios_obey_the_identities_of_the_triangle(shape):
    geometry = HalfEdgeGeometry.measure(shape.vertices, shape.faces)
    ratio = geometry.edge_height_ratio()
    before, after = geometry.edge_edge_ratios()
    unclamped = (ratio > 0.05) & (ratio < 50) & (before > 0.02) & (before < 50)
    fair = (unclamped & (after > 0.02) & (after < 50)).all(dim=1)
    ratio, before, after = ratio[fair], before[fair], after[fair]
    condition = _slenderness(geometry) ** 2
    c = (ratio.sum(dim=1, keepdim=True) / 2 - ratio).unbind(dim=1)
    products = c[0] * c[1] + c[1] * c[2] + c[2] * c[0]
    assert_close(products, torch.ones_like(products), condition=condition)
    assert bool((ratio.sum(dim=1) > 2 * math.sqrt(3) - 1e-12).all())
    assert_close(before.prod(dim=1), torch.ones_like(products))
    assert_close(after.prod(dim=1), torch.ones_like(products))
    assert_close(before, (ratio / ratio.roll(1, dims=1)).sqrt(), condition=condition)
    assert_close(after, (ratio / ratio.roll(-1, dims=1)).sqrt(), condition=condition)


def test_edge_height_ratios_give_the_cotangents_of_opposite_angles():
    shape = shapes.lumpy(shapes.icosphere(1))
    ratio = HalfEdgeGeometry.measure(shape.vertices, shape.faces).edge_height_ratio()
    cotangent = ratio.sum(dim=1, keepdim=True) / 2 - ratio
    corner = shape.vertices[shape.faces]
    opposite = corner.roll(-2, dims=1)  # half-edge k runs from corner k to k + 1
    a, b = corner - opposite, corner.roll(-1, dims=1) - opposite
    sine = torch.linalg.vector_norm(torch.linalg.cross(a, b), dim=-1)
    assert_close(cotangent, (a * b).sum(-1) / sine, condition=10)


def test_integral_mean_curvature_of_the_cube_is_three_pi():
    geometry, pairs, angle = _measure(shapes.cube())
    length = geometry.length.reshape(-1)[pairs[:, 0]]
    assert_close((length * (angle - math.pi)).sum() / 2, 3 * math.pi, terms=18)


def test_integral_mean_curvature_of_a_fine_sphere_approaches_four_pi():
    geometry, pairs, angle = _measure(shapes.icosphere(4))
    length = geometry.length.reshape(-1)[pairs[:, 0]]
    assert round(float((length * (angle - math.pi)).sum() / 2), 6) == 12.561364


@given(shapes.meshes())
def test_the_angle_is_the_same_from_either_side_and_agrees_with_the_normals(shape):
    geometry, pairs, angle = _measure(shape)
    condition = _slenderness(geometry)
    assert_close(geometry.dihedral_angle(pairs.flip(1)), angle, condition=condition)
    normal = geometry.normal[pairs // 3]
    assert_close(-angle.cos(), (normal[:, 0] * normal[:, 1]).sum(-1), condition=condition)


def test_the_unsigned_angle_agrees_with_trimesh():
    shape = shapes.lumpy(shapes.icosphere(2), amount=0.02)
    _, pairs, angle = _measure(shape)
    other = trimesh.Trimesh(shape.vertices.numpy(), shape.faces.numpy(), process=False)
    order = torch.tensor(sorted(range(len(pairs)), key=other.face_adjacency.tolist().__getitem__))
    assert other.face_adjacency[order].tolist() == (pairs // 3).tolist()
    expected = math.pi - torch.tensor(other.face_adjacency_angles.tolist(), dtype=F64)[order]
    unsigned = torch.minimum(angle, FULL_TURN - angle)
    assert_close(unsigned, expected, condition=1 / float(angle.sin().abs().min()))


@given(st.floats(-1e-9, 1e-9), st.sampled_from([0.0, math.pi, FULL_TURN]), shapes.seeds)
def test_angles_lie_in_the_half_open_turn_however_folded(offset, angle, seed):
    measured = _measure(shapes.turned(shapes.two_faces(angle + offset), seed))[2]
    assert 0 <= float(measured) < FULL_TURN


def test_a_sliver_is_clamped_and_a_face_without_area_stays_finite():
    needle = shapes.mesh([(0, 0, 0), (1, 0, 0), (0.5, 1e-7, 0)], [(0, 1, 2)])
    point = shapes.mesh([(1, 1, 1)] * 3, [(0, 1, 2)])
    comb = shapes.mesh([(0, 0, 0), (1e-6, 0, 0), (0, 1, 0)], [(0, 1, 2)])
    for shape in (needle, point, comb):
        geometry = HalfEdgeGeometry.measure(shape.vertices, shape.faces)
        ratio, (before, after) = geometry.edge_height_ratio(), geometry.edge_edge_ratios()
        assert bool(((ratio >= 0.05) & (ratio <= 50)).all())
        for edge_ratio in (before, after):
            assert bool(((edge_ratio >= 0.02) & (edge_ratio <= 50)).all())


def test_ratios_within_the_clamps_are_exact():
    shape = shapes.mesh([(0, 0, 0), (1, 0, 0), (0.5, 1 / 40, 0)], [(0, 1, 2)])
    ratio = HalfEdgeGeometry.measure(shape.vertices, shape.faces).edge_height_ratio()
    assert_close(ratio[0, 0], 40.0)


def test_normals_follow_the_right_hand_rule_and_directions_the_corners():
    geometry, _, _ = _measure(shapes.triangle())
    assert_close(geometry.normal, [[0, 0, 1]])
    assert_close(geometry.direction[0], [[1, 0, 0], [-0.6, 0.8, 0], [0, -1, 0]])
