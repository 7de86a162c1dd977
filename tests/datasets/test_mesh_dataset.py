import pytest
import torch

from equigeo.datasets import MeshDataset
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh

_MESH = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
_SOUND = {
    "meshes": (_MESH, _MESH),
    "labels": torch.tensor([0, 1]),
    "classes": ("cat", "dog"),
    "names": ("a", "b"),
    "in_train": torch.tensor([True, False]),
}


def test_a_sound_data_set_is_accepted_and_frozen():
    dataset = MeshDataset(**_SOUND)
    assert (len(dataset), dataset.num_classes) == (2, 2)
    with pytest.raises(AttributeError):
        dataset.labels = torch.tensor([1, 1])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("meshes", (), "at least one mesh"),
        ("names", ("a",), "names must name 2 meshes, got 1"),
        ("labels", torch.tensor([0]), "labels must be torch.int64"),
        ("labels", torch.tensor([0.0, 1.0]), "labels must be torch.int64"),
        ("labels", torch.tensor([0, 2]), "positions in 2 classes, got 0 to 2"),
        ("labels", torch.tensor([-1, 0]), "positions in 2 classes, got -1 to 0"),
        ("in_train", torch.tensor([0, 1]), "in_train must be torch.bool"),
        ("classes", ("cat", "cat"), "different names"),
        ("reports", ("a report",), "reports must be of 2 meshes or of none, got 1"),
        ("groups", torch.tensor([0]), r"groups must be torch.int64 \(2,\), got torch.int64 \(1,\)"),
        ("groups", torch.tensor([0.0, 1.0]), "groups must be torch.int64"),
        ("groups", torch.tensor([7, 7]), "group 7 has meshes of several classes"),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        MeshDataset(**{**_SOUND, field: value})


def test_a_group_is_on_one_side_of_the_split():
    same = {**_SOUND, "labels": torch.tensor([1, 1]), "groups": torch.tensor([4, 4])}
    with pytest.raises(ValueError, match=r"group 4 has meshes .* some in training and some not"):
        MeshDataset(**same)
    both = MeshDataset(**{**same, "in_train": torch.tensor([True, True])})
    assert both.groups.tolist() == [4, 4]
