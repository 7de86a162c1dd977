"""Half-edges, their twins, and the counts that Euler's formula fixes."""

import pytest
import torch
from hypothesis import given

from equigeo.mesh import MeshError, PrimalDualGraph
from equigeo.mesh.geometry.half_edges import HalfEdges
from tests.mesh import shapes
from tests.mesh.definitions import shared_edges
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
