import pytest
import torch

from equigeo.datasets import EdgeLabels, SegmentedMeshDataset
from equigeo.mesh import TriangleMesh

_MESH = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 3, 1]]))
_SOUND = {
    "meshes": (_MESH, _MESH),
    "labels": (torch.tensor([0, 1]), torch.tensor([1, -1])),
    "classes": ("seat", "back"),
    "names": ("a", "b"),
    "in_train": torch.tensor([True, False]),
}
_EDGES = torch.tensor([0, 1, -1, 0, 1])


def test_a_sound_data_set_is_accepted_and_frozen():
    dataset = SegmentedMeshDataset(**_SOUND)
    assert (len(dataset), dataset.num_classes) == (2, 2)
    with pytest.raises(AttributeError):
        dataset.labels = ()


@pytest.mark.parametrize(("labels_at", "number"), [("faces", 2), ("edges", 5), ("vertices", 4)])
def test_labels_have_the_number_of_what_they_label(labels_at, number):
    labels = (torch.zeros(number, dtype=torch.int64),) * 2
    sound = {**_SOUND, "labels": labels, "labels_at": labels_at}
    assert f"labelled {labels_at}" in repr(SegmentedMeshDataset(**sound))
    wrong = {**sound, "labels": (labels[0], labels[0][1:])}
    with pytest.raises(ValueError, match=rf"b: labels of {labels_at} must be .*\({number},\)"):
        SegmentedMeshDataset(**wrong)


def test_labels_of_edges_may_stand_beside_those_of_faces():
    edges = (EdgeLabels(_EDGES, torch.zeros(5, 3, dtype=torch.float64)), EdgeLabels())
    assert SegmentedMeshDataset(**_SOUND, edge_labels=edges).edge_labels is edges


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("meshes", (), "at least one mesh"),
        ("names", ("a",), "names must be of 2 meshes, got 1"),
        ("labels", (), "labels must be of 2 meshes, got 0"),
        ("labels", (torch.zeros(2), torch.zeros(2)), "a: labels of faces must be torch.int64"),
        ("labels", (torch.tensor([0, 2]),) * 2, "a: labels of faces .* got 0 to 2"),
        ("labels", (torch.tensor([0, -2]),) * 2, "a: labels of faces .* got -2 to 0"),
        ("in_train", torch.tensor([0, 1]), "in_train must be torch.bool"),
        ("classes", ("seat", "seat"), "different names"),
        ("classes", (), "different names"),
        ("labels_at", "corners", "labels_at must be one of"),
        ("edge_labels", (EdgeLabels(),), "edge_labels must be of 2 meshes, got 1"),
        ("edge_labels", (EdgeLabels(_EDGES[1:]),) * 2, r"a: edge labels must be torch.int64 \(5,"),
        ("edge_labels", (EdgeLabels(_EDGES + 1),) * 2, "a: edge labels must be positions in 2"),
        ("edge_labels", (EdgeLabels(soft=torch.zeros(5, 1).double()),) * 2, "at least 2"),
        ("edge_labels", (EdgeLabels(soft=-torch.ones(5, 2).double()),) * 2, "must be shares"),
        ("reports", (None,), "reports must be of 2 meshes, got 1"),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        SegmentedMeshDataset(**{**_SOUND, field: value})
