"""A mesh is checked once and does not change afterwards."""

import pytest
import torch

from equigeo.mesh import TriangleMesh

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
