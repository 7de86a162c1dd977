import numpy as np
import pytest
import torch
import trimesh

from equigeo.datasets import load_mesh_folder, split_indices
from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.read_mesh_file import _READERS as SUFFIXES
from tests.shared_data import shared_data

_TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
_QUAD_LOST = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 3 4 5\nf 3 5 6\nf 2 3 4\n"


def _write(root, *names, text=_TETRAHEDRON):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _two_classes(root):
    _write(root, "dog/train/b.obj", "dog/train/a.obj", "cat/train/c.obj", "cat/test/d.obj")


def test_labels_follow_sorted_class_folders_and_files_sorted_names(tmp_path):
    _two_classes(tmp_path)
    dataset = load_mesh_folder(tmp_path)
    assert dataset.classes == ("cat", "dog")
    assert dataset.names == (
        "cat/train/c.obj",
        "cat/test/d.obj",
        "dog/train/a.obj",
        "dog/train/b.obj",
    )
    assert dataset.labels.tolist() == [0, 0, 1, 1]
    assert dataset.in_train.tolist() == [True, False, True, True]
    assert all(mesh.num_faces == 4 for mesh in dataset.meshes)


def test_reports_travel_with_their_meshes(tmp_path):
    _two_classes(tmp_path)
    _write(tmp_path, "cat/train/e.obj", text=f"v 9 9 9\nv nan 0 0\n{_QUAD_LOST}")
    dataset = load_mesh_folder(tmp_path)
    paths = [report.path.relative_to(tmp_path).as_posix() for report in dataset.reports]
    assert tuple(paths) == dataset.names
    assert [report.is_clean for report in dataset.reports] == [True, False, True, True, True]
    assert dataset.reports[1].counts.nonfinite_faces == 1
    assert all(
        len(report.kept_faces) == mesh.num_faces
        for report, mesh in zip(dataset.reports, dataset.meshes, strict=True)
    )


def test_files_of_every_format_are_members_and_leftovers_of_other_programs_are_none(tmp_path):
    _two_classes(tmp_path)
    _write(tmp_path, "cache/x.npz", ".git/y", "classes.txt", "mean_std_cache.p", text="junk")
    _write(tmp_path, "cat/train/.hidden.obj", "cat/train/readme.txt", "cat/cache/z", text="junk")
    assert len(load_mesh_folder(tmp_path)) == 4
    mesh = trimesh.Trimesh(np.eye(4)[:, :3], [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    for suffix in SUFFIXES:
        mesh.export(tmp_path / f"cat/test/{suffix.lstrip('.')}{suffix}")
    names = load_mesh_folder(tmp_path).names
    assert {f"cat/test/{suffix.lstrip('.')}{suffix}" for suffix in SUFFIXES} <= set(names)


def test_one_enclosing_folder_is_entered_and_a_hostile_class_name_is_only_data(tmp_path):
    _two_classes(tmp_path / "shrec_16")
    assert load_mesh_folder(tmp_path).names[0] == "cat/train/c.obj"
    name = "<script>alert(1)<"
    _write(tmp_path / "shrec_16", f"{name}/train/a.obj")
    assert load_mesh_folder(str(tmp_path)).classes == (name, "cat", "dog")


def test_all_unreadable_members_make_one_error(tmp_path):
    _two_classes(tmp_path)
    bad = [f"cat/train/bad{k}.obj" for k in range(7)]
    _write(tmp_path, *bad, text="not a mesh")
    with pytest.raises(MeshError, match="7 of 11 mesh files cannot be used") as caught:
        load_mesh_folder(tmp_path)
    message = str(caught.value)
    assert str(tmp_path) in message
    assert "and 2 more" in message
    assert all(name in message for name in bad[:5])
    assert not any(name in message for name in bad[5:])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ((), "found no class folders"),
        (("train/a.obj", "test/b.obj"), "found no class folders"),
        (("cat/train/a.obj", "cat/test/b.obj"), "found only the class 'cat'"),
        (("cat/train/a.obj", "dog/train/b.txt"), "class 'dog' has no mesh files"),
        (("cat/train/a.obj", "dog/train/a.obj", "eel/b.obj"), "'eel' has neither train nor test"),
    ],
)
def test_a_wrong_layout_is_one_error_that_names_the_folder(tmp_path, files, message):
    _write(tmp_path, *files)
    with pytest.raises(ValueError, match=message) as caught:
        load_mesh_folder(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_missing_folder_and_a_plain_file_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere: no such file or folder"):
        load_mesh_folder(tmp_path / "nowhere")
    _write(tmp_path, "mesh.obj")
    with pytest.raises(ValueError, match=r"mesh.obj: expected a folder or an archive"):
        load_mesh_folder(tmp_path / "mesh.obj")


def _closed(mesh):
    edges = torch.cat([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]])
    keys = edges[:, 0] * mesh.num_vertices + edges[:, 1]
    twins = edges[:, 1] * mesh.num_vertices + edges[:, 0]
    return len(keys.unique()) == len(keys) and torch.equal(keys.sort()[0], twins.sort()[0])


@pytest.mark.full
def test_shrec11_loads_from_its_archive(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path))
    dataset = load_mesh_folder(shared_data("shrec11_meshcnn") / "shrec_16.tar.gz")
    assert (len(dataset), dataset.num_classes) == (600, 30)
    assert dataset.classes[0] == "alien"
    assert "myScissor" in dataset.classes
    assert all(mesh.num_faces == 500 for mesh in dataset.meshes)
    assert all(_closed(mesh) for mesh in dataset.meshes)
    counts = torch.bincount(dataset.labels[dataset.in_train])
    assert counts.tolist() == [16] * 30
    assert [len(part) for part in split_indices(dataset, "16")] == [480, 120]
    train, test = split_indices(dataset, "10")
    assert (len(train), len(test)) == (300, 300)
    assert not set(train.tolist()) & set(test.tolist())
