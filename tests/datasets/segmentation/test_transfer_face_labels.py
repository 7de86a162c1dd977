"""Labels carried over to subdivisions and simplifications."""

import pytest
import torch

from equigeo.datasets.segmentation.transfer_face_labels import transfer_face_labels
from equigeo.mesh import subdivide
from tests.mesh import shapes


def test_a_subdivided_mesh_inherits_the_labels_of_its_faces():
    mesh = shapes.lumpy(shapes.icosphere(1), seed=3)
    labels = torch.arange(mesh.num_faces)
    assert (transfer_face_labels(mesh, labels, subdivide(mesh)).bincount() == 4).all()


def test_the_same_mesh_keeps_its_labels_wherever_both_are():
    mesh = shapes.lumpy(shapes.torus())
    labels = torch.randint(5, (mesh.num_faces,))
    for seed in range(3):
        moved = shapes.turned(mesh, seed)
        assert torch.equal(transfer_face_labels(moved, labels, moved), labels)


def test_faces_without_area_label_nothing():
    vertices = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0.3, 0.3, 0]])
    flat = shapes.mesh(torch.cat((vertices, vertices[3:], vertices[3:])), [(0, 1, 2), (3, 4, 5)])
    other = shapes.mesh(vertices[:3], [(0, 1, 2)])
    assert transfer_face_labels(flat, torch.tensor([1, 2]), other).tolist() == [1]


def test_wrong_labels_and_meshes_without_area_are_refused():
    mesh = shapes.icosphere(0)
    with pytest.raises(ValueError, match="labels must be of 20 faces"):
        transfer_face_labels(mesh, torch.zeros(3, dtype=torch.long), mesh)
    point = shapes.mesh(torch.ones(3, 3), [(0, 1, 2)])
    with pytest.raises(ValueError, match="some area"):
        transfer_face_labels(point, torch.zeros(1, dtype=torch.long), mesh)
