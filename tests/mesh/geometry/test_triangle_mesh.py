import itertools
import math

import numpy as np
import pytest
import torch
import trimesh
from hypothesis import given
from hypothesis import strategies as st

from equigeo.groups import Affine, O
from equigeo.mesh import DualKind, MeshError, PrimalDualGraph, TriangleMesh
from equigeo.mesh.geometry.features import AreaShares
from equigeo.mesh.geometry.half_edges import HalfEdgeGeometry, edge_pairs, pairs_of_faces
from equigeo.mesh.geometry.orient import Surface
from equigeo.reps import Trivial
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import generator
from tests.mesh import shapes
from tests.mesh.definitions import FULL_TURN, assert_close, graph_of, shared_edges
from tests.mesh.shapes import met_again
from tests.wrong_inputs import refused

FACES = torch.tensor([[0, 1, 2]])


QUAD = (torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 3, 1]]))


def test_wrong_vertices_faces_and_pairs_raise():
    for arguments, message in (
        ((torch.eye(2), FACES), r"vertices must be floating \(vertices, 3\)"),
        ((torch.eye(3).long(), FACES), "vertices must be floating"),
        ((torch.eye(3), FACES.float()), r"faces must be integer \(faces, 3\)"),
        ((torch.eye(3), FACES + 1), "got indices from 1 to 3"),
        ((torch.eye(3), FACES - 1), "got indices from -1 to 1"),
        ((torch.full((3, 3), torch.inf), FACES), "must be finite"),
        (
            (*QUAD, torch.tensor([0, 5])),
            r"pairs must be integer \(pairs, 2\), got torch.int64 \(2,\)",
        ),
        ((*QUAD, torch.tensor([[0.0, 5.0]])), "pairs must be integer"),
        ((*QUAD, torch.tensor([[0, 6]])), "pairs must index 6 half-edges, got indices from 0 to 6"),
        ((*QUAD, torch.tensor([[-1, 5]])), "got indices from -1 to 5"),
        (
            (*QUAD, torch.tensor([[0, 5], [1, 4]])),
            r"between the same vertices, got \[1, 4\] in row 1",
        ),
        ((*QUAD, torch.tensor([[0, 0]])), "half-edges of two faces"),
    ):
        refused(message, TriangleMesh, *arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_homogeneous_matrix_moves_positions_and_other_matrices_raise(dtype):
    g = torch.eye(4)
    g[:3, 3] = torch.tensor([1.0, 2.0, 3.0])
    moved = TriangleMesh(torch.eye(3), FACES).act(g)
    assert torch.equal(moved.vertices, torch.eye(3).double() + torch.tensor([1.0, 2.0, 3.0]))
    assert torch.equal(moved.faces, FACES)
    refused(r"got \(2, 2\)", moved.act, torch.eye(2))
    mesh = TriangleMesh(torch.eye(3), FACES)
    g = torch.eye(4, dtype=dtype)
    g[:3] = torch.randn(3, 4, generator=generator(0)).to(dtype)
    inverse = torch.linalg.inv(g) @ g @ torch.linalg.inv(g)  # with some rounding
    assert mesh.act(g).act(inverse).num_faces == 1
    for wrong in (g.T, torch.diag(torch.tensor([1, 1, 1, 2])), 2 * g, g * torch.nan):
        refused(r"must have the last row \(0, 0, 0, 1\), got", mesh.act, wrong)


def test_arrays_meshes_and_scenes_of_trimesh_are_copied_in_their_order():
    integers = [np.int64, np.int32, np.uint32, np.uint16, np.uint8]
    for floating, integer in itertools.product([np.float64, np.float32, ">f8"], integers):
        vertices, faces = np.eye(3, dtype=floating), np.array([[0, 1, 2]], integer)
        mesh = TriangleMesh(vertices, faces)
        assert torch.equal(mesh.vertices, torch.eye(3).double())
        assert torch.equal(mesh.faces, FACES)
        vertices[0, 0] = 9
        assert mesh.vertices[0, 0] == 1
        assert torch.equal(mesh.act(2 * np.eye(3)).vertices, 2 * mesh.vertices)
    vertices, faces = torch.eye(3, dtype=torch.float64), FACES.clone()
    mesh = TriangleMesh(vertices, faces)
    vertices[0, 0], faces[0, 0] = torch.nan, 7
    assert mesh.vertices[0, 0] == 1.0
    assert mesh.faces[0, 0] == 0
    ball = trimesh.creation.icosphere(subdivisions=1)
    mesh = TriangleMesh.from_trimesh(ball)
    assert np.array_equal(mesh.vertices.numpy(), ball.vertices)
    assert np.array_equal(mesh.faces.numpy(), ball.faces)
    assert PrimalDualGraph.from_mesh(mesh).num_primal == len(ball.faces)
    scene = trimesh.Scene()
    box, ball = trimesh.creation.box(), trimesh.creation.icosphere(subdivisions=0)
    turn = trimesh.transformations.rotation_matrix(0.5, [1, 1, 0], [3, 2, 1])
    scene.add_geometry(box)
    scene.add_geometry(ball, transform=turn)
    scene.add_geometry(trimesh.PointCloud(np.eye(3)))
    mesh = TriangleMesh.from_trimesh(scene)
    assert mesh.num_faces == len(box.faces) + len(ball.faces)
    moved = torch.from_numpy(trimesh.transform_points(ball.vertices, turn))
    nearest = torch.cdist(moved, mesh.vertices).amin(1)
    assert float(nearest.max()) < tolerance(torch.float64, 4)["atol"]
    points = trimesh.Scene([trimesh.PointCloud(np.eye(3))])
    refused("a scene with a mesh, got one of 1 others", TriangleMesh.from_trimesh, points)


def test_pairs_are_kept_and_move_with_the_mesh() -> None:
    pairs = torch.tensor([[0, 5]], dtype=torch.int32)
    mesh = TriangleMesh(*QUAD, pairs)
    pairs.zero_()  # a copy was made
    assert mesh.pairs is not None
    assert (mesh.pairs.tolist(), mesh.pairs.dtype) == ([[0, 5]], torch.int64)
    assert torch.equal(mesh.act(torch.eye(3)).pairs, mesh.pairs)
    assert TriangleMesh(*QUAD).pairs is None


def _factors(scale, number=2000):
    """The matrices by which an octahedron is stretched: where the unit vectors go."""
    unit = Surface.from_mesh(shapes.octahedron())
    surface = Surface.batch([unit] * number)
    moved = surface.stretch(scale, generator()).vertices.reshape(number, 6, 3)
    return moved[:, :3].mT


def test_stretches_are_symmetric_positive_repeatable_and_have_no_direction():
    factors = _factors(0.4)
    torch.testing.assert_close(factors, factors.mT)
    assert (torch.linalg.eigvalsh(factors) > 0).all()
    torch.testing.assert_close(torch.linalg.det(factors), torch.ones(2000).double())
    surface = Surface.batch([Surface.from_mesh(shapes.cube())] * 2)
    first, again, other = (surface.stretch(0.2, generator(k)).vertices for k in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert not torch.allclose(*first.split(8))
    assert torch.equal(surface.stretch(0.0, generator()).vertices, surface.vertices)
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


def test_deform_measures_again_what_stretch_and_jitter_moved():
    graph = PrimalDualGraph.from_mesh(shapes.lumpy(shapes.icosphere(1)))
    moved = graph.deform(stretch=0.3, generator=generator())
    mesh = shapes.mesh(moved.surface.vertices, moved.surface.faces)
    torch.testing.assert_close(moved.x_dual, PrimalDualGraph.from_mesh(mesh).x_dual)
    assert not torch.allclose(moved.x_dual, graph.x_dual)
    same = graph.deform(generator=generator())
    assert torch.equal(same.x_dual, graph.x_dual)
    jittered = graph.deform(jitter=0.1, generator=generator())
    assert torch.equal(jittered.x_dual, graph.jitter(0.1, generator()).x_dual)


def _shares(shape, kind=DualKind.SINGLE):
    surface = Surface.from_mesh(shape)
    return AreaShares.measure(surface, surface.edges(), kind)


@given(shape=shapes.meshes())
def test_faces_share_the_area_by_their_own(shape):
    area = torch.as_tensor(trimesh.triangles.area(shape.vertices[shape.faces].numpy()))
    if float(area.sum()) > 0:
        assert_close(_shares(shape).primal, area / area.sum(), terms=16, condition=10)


@pytest.mark.parametrize("kind", list(DualKind))
def test_pairs_share_the_area_of_a_closed_mesh(kind):
    shape = shapes.lumpy(shapes.icosphere(1), seed=3)
    primal, dual = vars(_shares(shape, kind)).values()
    assert_close(dual.sum(), 1.0, terms=240)
    single = _shares(shape).dual
    pairs = dual.reshape(-1, kind.nodes_per_edge)
    assert_close(pairs.sum(dim=1), single)
    surface = Surface.from_mesh(shape)
    assert_close(single, primal[surface.edges()].sum(dim=1) / 3)  # three neighbors a face


def test_a_batch_shares_area_as_its_meshes_do_and_without_area_evenly():
    several = [shapes.bowl(), shapes.torus(), shapes.triangle()]
    together = PrimalDualGraph.batch([graph_of(shape) for shape in several]).shares
    assert torch.equal(together.primal, torch.cat([_shares(shape).primal for shape in several]))
    assert torch.equal(together.dual, torch.cat([_shares(shape).dual for shape in several]))
    alone = PrimalDualGraph.from_adjacency(
        torch.tensor([[0, 1]]), DualKind.SINGLE, torch.zeros(2, dtype=torch.int64), 1
    )
    assert AreaShares.batch([_shares(shapes.bowl()), alone.shares]) is None
    flat = shapes.mesh(torch.ones(4, 3), [(0, 1, 2), (0, 2, 3)])
    primal, dual = vars(_shares(flat)).values()
    assert primal.tolist() == [0.5, 0.5]
    assert dual.tolist() == [1.0]


def test_shares_are_invariant():
    def shares(shape):
        return tuple(share[:, None] for share in vars(_shares(shape)).values())

    rep_out, inputs = [Trivial(Affine(O(3)), 1)] * 2, [shapes.bowl()]
    assert_equivariant(shares, rep_out=rep_out, inputs=inputs, condition=1e3)


def _twin(faces: torch.Tensor) -> torch.Tensor:
    """Return the other half-edge of each pair, -1 at a boundary."""
    twin, pairs = torch.full((faces.numel(),), -1), pairs_of_faces(faces)
    twin[pairs] = pairs.flip(1)
    return twin


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


def test_half_edges_are_those_of_the_mesh_and_shared_edges_of_pillows_and_triangles() -> None:
    mesh = met_again()
    assert mesh.pairs is not None
    found = {frozenset(pair) for pair in edge_pairs(mesh).tolist()}
    assert found == {frozenset(pair) for pair in mesh.pairs.tolist()}
    cube = shapes.cube()
    assert torch.equal(edge_pairs(cube), pairs_of_faces(cube.faces))
    assert (pairs_of_faces(shapes.pillow().faces) // 3).tolist() == [[0, 1]] * 3
    assert _twin(shapes.triangle().faces).tolist() == [-1, -1, -1]
    assert pairs_of_faces(torch.empty(0, 3, dtype=torch.int64)).shape == (0, 2)


def _measure(shape):
    geometry = HalfEdgeGeometry.measure(shape.vertices, shape.faces)
    pairs = pairs_of_faces(shape.faces)
    return geometry, pairs, geometry.dihedral_angle(pairs)


def _slenderness(geometry):
    """By how much a normal amplifies rounding errors: squared length over twice the area."""
    return float((geometry.length.square() / (2 * geometry.area[:, None])).max())


def test_a_triangle_and_the_icosphere_have_the_listed_values():
    geometry, pairs, _ = _measure(shapes.triangle())
    assert len(pairs) == 0
    assert_close(geometry.length, [[3, 5, 4]])
    assert_close(geometry.edge_height_ratio(), [[3 / 4, 25 / 12, 4 / 3]])
    before, after = geometry.edge_edge_ratios()
    assert_close(before, [[3 / 4, 5 / 3, 4 / 5]])
    assert_close(after, [[3 / 5, 5 / 4, 4 / 3]])
    assert_close(geometry.normal, [[0, 0, 1]])
    assert_close(geometry.direction[0], [[1, 0, 0], [-0.6, 0.8, 0], [0, -1, 0]])
    geometry, _, angle = _measure(shapes.icosphere(1))
    six_places = lambda x: sorted({round(value, 6) for value in x.flatten().tolist()})  # noqa: E731
    assert six_places(angle) == [3.45626, 3.533575]
    assert six_places(geometry.edge_height_ratio()) == [1.07214, 1.154701, 1.371018]
    assert six_places(geometry.area / geometry.area.sum()) == [0.011941, 0.014178]


@given(shapes.meshes())
def test_ratios_and_angles_obey_the_identities_of_the_triangle(shape):
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
    geometry, pairs, angle = _measure(shape)
    condition = _slenderness(geometry)
    assert_close(geometry.dihedral_angle(pairs.flip(1)), angle, condition=condition)
    normal = geometry.normal[pairs // 3]
    assert_close(-angle.cos(), (normal[:, 0] * normal[:, 1]).sum(-1), condition=condition)


def test_edge_height_ratios_give_the_cotangents_of_opposite_angles():
    shape = shapes.lumpy(shapes.icosphere(1))
    ratio = HalfEdgeGeometry.measure(shape.vertices, shape.faces).edge_height_ratio()
    cotangent = ratio.sum(dim=1, keepdim=True) / 2 - ratio
    corner = shape.vertices[shape.faces]
    opposite = corner.roll(-2, dims=1)  # half-edge k runs from corner k to k + 1
    a, b = corner - opposite, corner.roll(-1, dims=1) - opposite
    sine = torch.linalg.vector_norm(torch.linalg.cross(a, b), dim=-1)
    assert_close(cotangent, (a * b).sum(-1) / sine, condition=10)


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
