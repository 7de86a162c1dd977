import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import MeshError, PrimalDualGraph
from equigeo.mesh.geometry.half_edges import HalfEdgeGeometry, edge_pairs, pairs_of_faces
from tests.mesh import shapes
from tests.mesh.definitions import FULL_TURN, assert_close, shared_edges
from tests.mesh.shapes import met_again
from tests.wrong_inputs import refused


def _ends(faces: torch.Tensor) -> torch.Tensor:
    return torch.stack((faces, faces.roll(-1, dims=1)), dim=-1).reshape(-1, 2)


def _twin(faces: torch.Tensor) -> torch.Tensor:
    """Return the other half-edge of each pair, -1 at a boundary."""
    twin, pairs = torch.full((faces.numel(),), -1), pairs_of_faces(faces)
    twin[pairs] = pairs.flip(1)
    return twin


@given(shapes.meshes())
def test_twins_run_between_the_same_vertices_in_opposite_directions(shape):
    twin = _twin(shape.faces)
    paired = torch.nonzero(twin >= 0).flatten()
    ends = _ends(shape.faces)
    assert torch.equal(ends[paired], ends[twin[paired]].flip(1))
    assert torch.equal(twin[twin[paired]], paired)
    assert bool((twin[paired] // 3 != paired // 3).all())


@given(shapes.meshes())
def test_pairs_are_the_shared_edges_sorted_with_the_lower_face_first(shape):
    pairs = pairs_of_faces(shape.faces)
    expected = shared_edges(shape)
    assert [tuple(row) for row in (pairs // 3).tolist()] == sorted(expected)
    assert [tuple(row) for row in pairs.tolist()] == [expected[key][0] for key in sorted(expected)]


@given(shapes.meshes(), shapes.seeds)
def test_renumbering_permutes_the_pairing(shape, seed):
    twin = _twin(shape.faces)
    order = shapes.permutation(shape.num_vertices, seed)
    renumbered = shapes.renumbered_vertices(shape, order)
    assert torch.equal(_twin(renumbered.faces), twin)
    order = shapes.permutation(shape.num_faces, seed)
    got = _twin(shape.faces[order])
    old = (3 * order[:, None] + torch.arange(3)).flatten()  # old number of each half-edge
    back = torch.where(got >= 0, old[got.clamp_min(0)], -1)
    assert torch.equal(back, twin[old])


def test_pillows_single_faces_and_empty_meshes_have_as_many_pairs_as_shared_edges():
    assert (pairs_of_faces(shapes.pillow().faces) // 3).tolist() == [[0, 1]] * 3
    assert _twin(shapes.triangle().faces).tolist() == [-1, -1, -1]
    assert pairs_of_faces(torch.empty(0, 3, dtype=torch.int64)).shape == (0, 2)


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
    refused(r"face \d", PrimalDualGraph.from_mesh, shape, error=MeshError)


def test_half_edges_are_those_that_the_mesh_says() -> None:
    mesh = met_again()
    assert mesh.pairs is not None
    found = {frozenset(pair) for pair in edge_pairs(mesh).tolist()}
    assert found == {frozenset(pair) for pair in mesh.pairs.tolist()}
    cube = shapes.cube()
    assert torch.equal(edge_pairs(cube), pairs_of_faces(cube.faces))


def _measure(shape):
    geometry = HalfEdgeGeometry.measure(shape.vertices, shape.faces)
    pairs = pairs_of_faces(shape.faces)
    return geometry, pairs, geometry.dihedral_angle(pairs)


def _slenderness(geometry):
    """By how much a normal amplifies rounding errors: squared length over twice the area."""
    return float((geometry.length.square() / (2 * geometry.area[:, None])).max())


def test_the_3_4_5_triangle_has_the_listed_ratios_normal_and_directions():
    geometry, pairs, _ = _measure(shapes.triangle())
    assert len(pairs) == 0
    assert_close(geometry.length, [[3, 5, 4]])
    assert_close(geometry.edge_height_ratio(), [[3 / 4, 25 / 12, 4 / 3]])
    before, after = geometry.edge_edge_ratios()
    assert_close(before, [[3 / 4, 5 / 3, 4 / 5]])
    assert_close(after, [[3 / 5, 5 / 4, 4 / 3]])
    assert_close(geometry.normal, [[0, 0, 1]])
    assert_close(geometry.direction[0], [[1, 0, 0], [-0.6, 0.8, 0], [0, -1, 0]])


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


@given(shapes.meshes())
def test_the_angle_is_the_same_from_either_side_and_agrees_with_the_normals(shape):
    geometry, pairs, angle = _measure(shape)
    condition = _slenderness(geometry)
    assert_close(geometry.dihedral_angle(pairs.flip(1)), angle, condition=condition)
    normal = geometry.normal[pairs // 3]
    assert_close(-angle.cos(), (normal[:, 0] * normal[:, 1]).sum(-1), condition=condition)


@given(st.floats(-1e-9, 1e-9), st.sampled_from([0.0, math.pi, FULL_TURN]), shapes.seeds)
def test_angles_lie_in_the_half_open_turn_however_folded(offset, angle, seed):
    measured = _measure(shapes.turned(shapes.two_faces(angle + offset), seed))[2]
    assert 0 <= float(measured) < FULL_TURN


def test_ratios_are_exact_within_their_clamps_and_finite_without_area():
    needle = shapes.mesh([(0, 0, 0), (1, 0, 0), (0.5, 1e-7, 0)], [(0, 1, 2)])
    point = shapes.mesh([(1, 1, 1)] * 3, [(0, 1, 2)])
    comb = shapes.mesh([(0, 0, 0), (1e-6, 0, 0), (0, 1, 0)], [(0, 1, 2)])
    for shape in (needle, point, comb):
        geometry = HalfEdgeGeometry.measure(shape.vertices, shape.faces)
        ratio, (before, after) = geometry.edge_height_ratio(), geometry.edge_edge_ratios()
        assert bool(((ratio >= 0.05) & (ratio <= 50)).all())
        for edge_ratio in (before, after):
            assert bool(((edge_ratio >= 0.02) & (edge_ratio <= 50)).all())
    shape = shapes.mesh([(0, 0, 0), (1, 0, 0), (0.5, 1 / 40, 0)], [(0, 1, 2)])
    ratio = HalfEdgeGeometry.measure(shape.vertices, shape.faces).edge_height_ratio()
    assert_close(ratio[0, 0], 40.0)
