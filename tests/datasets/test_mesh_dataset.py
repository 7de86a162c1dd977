"""Data sets of meshes and how they are split."""

from dataclasses import replace

import pytest
import torch

from equigeo.datasets import MeshDataset, split_indices
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


def _dataset(per_class=20, shipped=16, classes=("cat", "dog", "eel")):
    number = per_class * len(classes)
    position = torch.arange(number) // len(classes)
    return MeshDataset(
        meshes=(_MESH,) * number,
        labels=torch.arange(number) % len(classes),  # interleaved: order must not matter
        classes=classes,
        names=tuple(str(k) for k in range(number)),
        in_train=position < shipped,
    )


def _per_class(dataset, indices):
    return torch.bincount(dataset.labels[indices], minlength=dataset.num_classes).tolist()


@pytest.mark.parametrize(("split", "index"), [("folder", 0), ("16", 0), ("16", 2), ("10", 0)])
def test_a_split_is_a_partition(split, index):
    dataset = _dataset()
    train, test = split_indices(dataset, split, index)
    assert sorted(torch.cat([train, test]).tolist()) == list(range(len(dataset)))
    assert train.dtype == test.dtype == torch.int64


@pytest.mark.parametrize(("split", "count"), [("16", 16), ("10", 10), ("5", 5)])
def test_every_class_gets_its_number_of_training_meshes(split, count):
    dataset = _dataset(per_class=21, shipped=12)
    for index in range(3):
        train, test = split_indices(dataset, split, index)
        assert _per_class(dataset, train) == [count] * 3
        assert _per_class(dataset, test) == [21 - count] * 3


def test_draws_repeat_and_differ_and_the_first_never_changes():
    draws = [split_indices(_dataset(), "10", index)[0] for index in range(5)]
    for index, draw in enumerate(draws):
        assert torch.equal(draw, split_indices(_dataset(), "10", index)[0])
    assert len({tuple(draw.tolist()) for draw in draws}) == 5
    train, _ = split_indices(_dataset(classes=("cat",)), "10", 0)
    assert train.tolist() == [0, 1, 2, 5, 6, 9, 11, 12, 13, 19]


def test_split_16_is_the_shipped_one_only_for_index_0_and_16_meshes_or_groups():
    dataset = _dataset()
    shipped = torch.nonzero(dataset.in_train).flatten()
    assert torch.equal(split_indices(dataset, "16")[0], shipped)
    assert not torch.equal(split_indices(dataset, "16", 1)[0], shipped)
    other = _dataset(shipped=15)
    assert _per_class(other, split_indices(other, "16")[0]) == [16] * 3
    assert torch.equal(*(split_indices(_grouped(), split)[0] for split in ("16", "folder")))


def _grouped(per_class=20, shipped=16):
    """Every mesh of ``_dataset`` three times, in no order."""
    single = _dataset(per_class, shipped)
    groups = torch.randperm(3 * len(single), generator=torch.Generator().manual_seed(0)) // 3
    return MeshDataset(
        meshes=(_MESH,) * len(groups),
        labels=single.labels[groups],
        classes=single.classes,
        names=tuple(str(k) for k in range(len(groups))),
        in_train=single.in_train[groups],
        groups=groups,
    )


@pytest.mark.parametrize(("split", "index"), [("folder", 0), ("16", 0), ("16", 2), ("10", 0)])
def test_groups_are_not_divided_and_count_once(split, index):
    dataset = _grouped()
    train, test = split_indices(dataset, split, index)
    assert sorted(torch.cat([train, test]).tolist()) == list(range(len(dataset)))
    assert not set(dataset.groups[train].tolist()) & set(dataset.groups[test].tolist())
    assert _per_class(dataset, train) == [30 if split == "10" else 48] * 3


def test_groups_of_one_mesh_change_no_draw():
    dataset = _dataset()
    alone = replace(dataset, groups=torch.arange(len(dataset)) + 100)
    for split, index in (("16", 1), ("10", 3)):
        first, again = (split_indices(data, split, index)[0] for data in (dataset, alone))
        assert torch.equal(first, again)


@pytest.mark.parametrize(
    ("dataset", "split", "message"),
    [
        (_dataset(), ("17",), "one of folder, 16, 10, 5, got '17'"),
        (_dataset(), ("10", -1), "has no draw number"),
        (_dataset(), ("folder", 1), "has no draw number"),
        (_dataset(per_class=10, shipped=8), ("10",), "class 'cat' has 10"),
        (_dataset(shipped=0), ("folder",), "class 'cat' has no training mesh"),
        (_dataset(shipped=20), ("folder",), "no test mesh"),
        (_grouped(15, 12), ("16",), "16 groups of meshes a class, class 'cat' has 15"),
    ],
)
def test_a_split_that_cannot_be_made_is_refused(dataset, split, message):
    with pytest.raises(ValueError, match=message):
        split_indices(dataset, *split)
