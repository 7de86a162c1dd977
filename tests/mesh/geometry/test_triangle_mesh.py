"""A mesh is checked once and does not change afterwards."""

import itertools

import numpy as np
import pytest
import torch
import trimesh

from equigeo.mesh import PrimalDualGraph, TriangleMesh
from equigeo.testing import tolerance

FACES = torch.tensor([[0, 1, 2]])


def test_writing_to_the_given_tensors_does_not_reach_the_mesh():
    vertices, faces = torch.eye(3, dtype=torch.float64), FACES.clone()
    mesh = TriangleMesh(vertices, faces)
    vertices[0, 0], faces[0, 0] = torch.nan, 7
    assert mesh.vertices[0, 0] == 1.0
    assert mesh.faces[0, 0] == 0


@pytest.mark.parametrize(
    ("vertices", "faces", "message"),
    [
        (torch.eye(2), FACES, r"vertices must be floating \(vertices, 3\)"),
        (torch.eye(3).long(), FACES, "vertices must be floating"),
        (torch.eye(3), FACES.float(), r"faces must be integer \(faces, 3\)"),
        (torch.eye(3), FACES + 1, "got indices from 1 to 3"),
        (torch.eye(3), FACES - 1, "got indices from -1 to 1"),
        (torch.full((3, 3), torch.inf), FACES, "must be finite"),
    ],
)
def test_what_is_no_mesh_is_refused(vertices, faces, message):
    with pytest.raises(ValueError, match=message):
        TriangleMesh(vertices, faces)


def test_a_homogeneous_matrix_moves_positions_and_nothing_else():
    g = torch.eye(4)
    g[:3, 3] = torch.tensor([1.0, 2.0, 3.0])
    moved = TriangleMesh(torch.eye(3), FACES).act(g)
    assert torch.equal(moved.vertices, torch.eye(3).double() + torch.tensor([1.0, 2.0, 3.0]))
    assert torch.equal(moved.faces, FACES)
    with pytest.raises(ValueError, match=r"got \(2, 2\)"):
        moved.act(torch.eye(2))


def test_arrays_are_a_mesh():
    integers = [np.int64, np.int32, np.uint32, np.uint16, np.uint8]
    for floating, integer in itertools.product([np.float64, np.float32, ">f8"], integers):
        vertices, faces = np.eye(3, dtype=floating), np.array([[0, 1, 2]], integer)
        mesh = TriangleMesh(vertices, faces)
        assert torch.equal(mesh.vertices, torch.eye(3).double())
        assert torch.equal(mesh.faces, FACES)
        vertices[0, 0] = 9
        assert mesh.vertices[0, 0] == 1
        assert torch.equal(mesh.act(2 * np.eye(3)).vertices, 2 * mesh.vertices)


def test_a_mesh_of_trimesh_keeps_its_order():
    ball = trimesh.creation.icosphere(subdivisions=1)
    mesh = TriangleMesh.from_trimesh(ball)
    assert np.array_equal(mesh.vertices.numpy(), ball.vertices)
    assert np.array_equal(mesh.faces.numpy(), ball.faces)
    assert PrimalDualGraph.from_mesh(mesh).num_primal == len(ball.faces)


def test_a_scene_of_trimesh_is_one_mesh_where_its_parts_stand():
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


def test_a_scene_without_a_mesh_is_refused():
    points = trimesh.Scene([trimesh.PointCloud(np.eye(3))])
    with pytest.raises(ValueError, match="a scene with a mesh, got one of 1 others"):
        TriangleMesh.from_trimesh(points)


TWO_FACES = torch.tensor([[0, 1, 2], [0, 3, 1]])


def test_pairs_are_kept_and_move_with_the_mesh() -> None:
    pairs = torch.tensor([[0, 5]], dtype=torch.int32)
    mesh = TriangleMesh(torch.eye(4, 3), TWO_FACES, pairs)
    pairs.zero_()  # a copy was made
    assert mesh.pairs is not None
    assert (mesh.pairs.tolist(), mesh.pairs.dtype) == ([[0, 5]], torch.int64)
    assert torch.equal(mesh.act(torch.eye(3)).pairs, mesh.pairs)
    assert TriangleMesh(torch.eye(4, 3), TWO_FACES).pairs is None


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (torch.tensor([0, 5]), r"pairs must be integer \(pairs, 2\), got torch.int64 \(2,\)"),
        (torch.tensor([[0.0, 5.0]]), "pairs must be integer"),
        (torch.tensor([[0, 6]]), "pairs must index 6 half-edges, got indices from 0 to 6"),
        (torch.tensor([[-1, 5]]), "got indices from -1 to 5"),
        (torch.tensor([[0, 5], [1, 4]]), r"between the same vertices, got \[1, 4\] in row 1"),
        (torch.tensor([[0, 0]]), "half-edges of two faces"),
    ],
)
def test_pairs_that_are_none_are_refused(pairs, message) -> None:
    with pytest.raises(ValueError, match=message):
        TriangleMesh(torch.eye(4, 3), TWO_FACES, pairs)
