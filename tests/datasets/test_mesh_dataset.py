import errno
import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from dataclasses import replace
from importlib.util import find_spec
from typing import get_args

import numpy as np
import pytest
import torch
import trimesh

from equigeo.datasets import (
    MeshDataset,
    ellipsoids,
    load_mesh_folder,
    load_regression_folder,
    load_segmentation_folder,
    mesh_dynamics,
    split_indices,
)
from equigeo.datasets import archive as module
from equigeo.datasets.archive import unpack_archive
from equigeo.datasets.dynamics import Tessellation
from equigeo.datasets.meshes import parts_of
from equigeo.datasets.shapes.surface import surface_defect
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.io.read_mesh_file import MESH_SUFFIXES as SUFFIXES
from tests.shared_data import shared_data
from tests.wrong_inputs import refused

_MESH = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
_SOUND = {
    "meshes": (_MESH, _MESH),
    "labels": torch.tensor([0, 1]),
    "classes": ("cat", "dog"),
    "names": ("a", "b"),
    "in_train": torch.tensor([True, False]),
}


def test_a_sound_data_set_is_frozen_and_a_group_on_one_side_of_the_split():
    dataset = MeshDataset(**_SOUND)
    assert (len(dataset), dataset.num_classes) == (2, 2)
    with pytest.raises(AttributeError):
        dataset.labels = torch.tensor([1, 1])
    same = {**_SOUND, "labels": torch.tensor([1, 1]), "groups": torch.tensor([4, 4])}
    refused(r"group 4 has meshes .* of several parts of the split", MeshDataset, **same)
    both = MeshDataset(**{**same, "in_train": torch.tensor([True, True])})
    assert both.groups.tolist() == [4, 4]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("seed", range(6))
def test_generated_surfaces_are_closed_and_wound_outwards(seed, sign, monkeypatch):
    # Other generators raise for a defect. A QR decomposition is unique up to signs.
    qr = np.linalg.qr
    monkeypatch.setattr(np.linalg, "qr", lambda x: (sign * qr(x).Q, sign * qr(x).R))
    found = list(ellipsoids(seed=seed, number=4, subdivisions=1).meshes)
    for kind in get_args(Tessellation):
        data = mesh_dynamics("heat", seed, number=4, faces=32, steps=1, tessellation=kind)
        found += data.meshes
    for mesh in found:
        assert surface_defect(mesh.vertices.numpy(), mesh.faces.numpy(), 0) is None


def test_fields_that_do_not_fit_together_are_refused():
    for field, value, message in (
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
    ):
        refused(message, MeshDataset, **{**_SOUND, field: value})


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


@pytest.mark.parametrize(("split", "count"), [("16", 16), ("10", 10), ("5", 5)])
def test_every_class_gets_its_number_of_training_meshes(split, count):
    dataset = _dataset(per_class=21, shipped=12)
    for index in range(3):
        train, test = split_indices(dataset, split, index)
        assert _per_class(dataset, train) == [count] * 3
        assert _per_class(dataset, test) == [21 - count] * 3


def test_draws_repeat_and_differ_and_split_16_is_the_shipped_one():
    draws = [split_indices(_dataset(), "10", index)[0] for index in range(5)]
    for index, draw in enumerate(draws):
        assert torch.equal(draw, split_indices(_dataset(), "10", index)[0])
    assert len({tuple(draw.tolist()) for draw in draws}) == 5
    train, _ = split_indices(_dataset(classes=("cat",)), "10", 0)
    assert train.tolist() == [0, 1, 2, 5, 6, 9, 11, 12, 13, 19]
    dataset = _dataset()
    shipped = torch.nonzero(dataset.in_train).flatten()
    assert torch.equal(split_indices(dataset, "16")[0], shipped)
    assert not torch.equal(split_indices(dataset, "16", 1)[0], shipped)
    other = _dataset(shipped=15)
    assert _per_class(other, split_indices(other, "16")[0]) == [16] * 3
    assert torch.equal(*(split_indices(_grouped(), split)[0] for split in ("16", "folder")))
    alone = replace(dataset, groups=torch.arange(len(dataset)) + 100)
    for split, index in (("16", 1), ("10", 3)):
        first, again = (split_indices(data, split, index)[0] for data in (dataset, alone))
        assert torch.equal(first, again)


def _grouped(per_class=20, shipped=16):
    """Every mesh of ``_dataset`` three times, in no order."""
    single = _dataset(per_class, shipped)
    groups = torch.randperm(3 * len(single), generator=torch.Generator().manual_seed(0)) // 3
    return replace(
        single, meshes=single.meshes * 3, names=tuple(str(k) for k in range(len(groups))),
        labels=single.labels[groups], in_train=single.in_train[groups], groups=groups,
    )  # fmt: skip


@pytest.mark.parametrize(("split", "index"), [("folder", 0), ("16", 0), ("16", 2), ("10", 0)])
def test_a_split_is_a_partition_and_groups_are_not_divided_and_count_once(split, index):
    for dataset in (_dataset(), _grouped()):
        train, test = split_indices(dataset, split, index)
        assert sorted(torch.cat([train, test]).tolist()) == list(range(len(dataset)))
        assert train.dtype == test.dtype == torch.int64
    assert not set(dataset.groups[train].tolist()) & set(dataset.groups[test].tolist())
    assert _per_class(dataset, train) == [30 if split == "10" else 48] * 3


def test_a_split_that_cannot_be_made_is_refused():
    for dataset, split, message in (
        (_dataset(), ("17",), "one of folder, 16, 10, 5, got '17'"),
        (_dataset(), ("10", -1), "has no draw number"),
        (_dataset(), ("folder", 1), "has no draw number"),
        (_dataset(per_class=10, shipped=8), ("10",), "class 'cat' has 10"),
        (_dataset(shipped=0), ("folder",), "class 'cat' has no training mesh"),
        (_dataset(shipped=20), ("folder",), "no test mesh"),
        (_grouped(15, 12), ("16",), "16 groups of meshes a class, class 'cat' has 15"),
    ):
        refused(message, split_indices, dataset, *split)


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
    names = ("cat/train/c.obj", "cat/test/d.obj", "dog/train/a.obj", "dog/train/b.obj")
    assert dataset.names == names
    assert dataset.labels.tolist() == [0, 0, 1, 1]
    assert dataset.in_train.tolist() == [True, False, True, True]
    assert all(mesh.num_faces == 4 for mesh in dataset.meshes)


def test_a_part_val_belongs_to_neither_training_nor_test(tmp_path):
    _two_classes(tmp_path)
    assert load_mesh_folder(tmp_path).in_val is None
    _write(tmp_path, "cat/val/v.obj", "dog/val/v.obj", "dog/test/t.obj")
    dataset = load_mesh_folder(tmp_path)
    is_val = ["/val/" in name for name in dataset.names]
    assert dataset.in_val.tolist() == is_val
    assert dataset.in_train.tolist() == ["/train/" in name for name in dataset.names]
    train, test = split_indices(dataset, "folder")
    assert [dataset.names[i] for i in test] == ["cat/test/d.obj", "dog/test/t.obj"]
    assert not torch.isin(train, test).any()
    wrong = {**vars(dataset), "in_val": torch.ones(len(dataset), dtype=torch.bool)}
    refused("in_train and in_val must have no sample in common", MeshDataset, **wrong)


def test_files_with_the_same_content_in_other_parts_or_classes_are_reported(tmp_path, caplog):
    for k, name in enumerate(("cat/train/a", "cat/train/b", "cat/test/c", "dog/train/d")):
        _write(tmp_path, f"{name}.obj", text=f"{_TETRAHEDRON}# {k}\n")
    load_mesh_folder(tmp_path)
    _write(tmp_path, "cat/train/e.obj", text=f"{_TETRAHEDRON}# 0\n")  # twice in one part
    load_mesh_folder(tmp_path)
    assert caplog.records == []
    _write(tmp_path, "cat/val/f.obj", text=f"{_TETRAHEDRON}# 1\n")
    _write(tmp_path, "dog/train/g.obj", text=f"{_TETRAHEDRON}# 2\n")
    load_mesh_folder(tmp_path)
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith("2 files occur again with the same content in another part or class")
    assert "cat/train/b.obj = cat/val/f.obj; cat/test/c.obj = dog/train/g.obj" in message
    assert "a.obj" not in message


def test_loading_options_reach_every_file(tmp_path):
    far = _TETRAHEDRON + "v 5 5 5\nv 5.1 5 5\nv 5 5.1 5\nf 5 6 7\n"
    _write(tmp_path, "cat/train/a.obj", "dog/train/b.obj", text=far)
    assert [mesh.num_faces for mesh in load_mesh_folder(tmp_path).meshes] == [5, 5]
    kept = load_mesh_folder(tmp_path, min_component=0.1).meshes
    assert [mesh.num_faces for mesh in kept] == [4, 4]
    refused("merge must be between 0 and 0.1", load_mesh_folder, tmp_path, merge=0.2)


def test_reports_travel_with_their_meshes(tmp_path):
    _two_classes(tmp_path)
    _write(tmp_path, "cat/train/e.obj", text=f"v 9 9 9\nv nan 0 0\n{_QUAD_LOST}")
    dataset = load_mesh_folder(tmp_path)
    paths = [report.path.relative_to(tmp_path).as_posix() for report in dataset.reports]
    assert tuple(paths) == dataset.names
    assert [report.is_clean for report in dataset.reports] == [True, False, True, True, True]
    assert dataset.reports[1].counts.nonfinite_faces == 1
    kept = [len(report.kept_faces) for report in dataset.reports]
    assert kept == [mesh.num_faces for mesh in dataset.meshes]


def test_files_of_every_format_are_members_and_leftovers_of_other_programs_are_none(tmp_path):
    _two_classes(tmp_path)
    _write(tmp_path, "cache/x.npz", ".git/y", "classes.txt", "mean_std_cache.p", text="junk")
    _write(tmp_path, "cat/train/.hidden.obj", "cat/train/readme.txt", "cat/cache/z", text="junk")
    assert len(load_mesh_folder(tmp_path)) == 4
    mesh = trimesh.Trimesh(np.eye(4)[:, :3], [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    # Of glTF, trimesh writes several files and leaves them open; 3MF needs lxml; it has no VTP.
    written = {*SUFFIXES} - {".gltf", ".vtp", *([] if find_spec("lxml") else [".3mf"])}
    for suffix in written:
        mesh.export(tmp_path / f"cat/test/{suffix.lstrip('.')}{suffix}")
    names = load_mesh_folder(tmp_path).names
    assert {f"cat/test/{suffix.lstrip('.')}{suffix}" for suffix in written} <= set(names)


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
    text = refused("7 of 11 mesh files cannot be used", load_mesh_folder, tmp_path, error=MeshError)
    assert str(tmp_path) in text
    assert "and 2 more" in text
    assert [name in text for name in bad] == [True] * 5 + [False] * 2


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ((), "found no class folders"),
        (("train/a.obj", "test/b.obj"), "found no class folders"),
        (("cat/train/a.obj", "cat/test/b.obj"), "found only the class 'cat'"),
        (("cat/train/a.obj", "dog/train/b.txt"), "class 'dog' has no mesh files"),
        (
            ("cat/train/a.obj", "dog/train/a.obj", "eel/b.obj"),
            "'eel' has neither train, val nor test",
        ),
        (
            ("cat/train/a.obj", "dog/train/a.obj", "dog/valid/b.obj"),
            "'dog/valid' is none of train, val and test",
        ),
    ],
)
def test_a_wrong_layout_is_one_error_that_names_the_folder(tmp_path, files, message):
    _write(tmp_path, *files)
    assert str(tmp_path) in refused(message, load_mesh_folder, tmp_path)


@pytest.mark.parametrize("load", [load_mesh_folder, load_segmentation_folder])
def test_a_missing_folder_and_a_plain_file_are_refused(load, tmp_path):
    refused(r"nowhere: no such file or folder", load, tmp_path / "nowhere")
    _write(tmp_path, "mesh.obj")
    refused(r"mesh.obj: expected a folder or an archive", load, tmp_path / "mesh.obj")


@pytest.mark.full
def test_shrec11_loads_from_its_archive(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path))
    dataset = load_mesh_folder(shared_data("shrec11_meshcnn") / "shrec_16.tar.gz")
    assert (len(dataset), dataset.num_classes) == (600, 30)
    assert dataset.classes[0] == "alien"
    assert "myScissor" in dataset.classes
    assert all(mesh.num_faces == 500 for mesh in dataset.meshes)
    for mesh in dataset.meshes:
        surface = trimesh.Trimesh(mesh.vertices.numpy(), mesh.faces.numpy(), process=False)
        assert surface.is_watertight
        assert surface.is_winding_consistent
    counts = torch.bincount(dataset.labels[dataset.in_train])
    assert counts.tolist() == [16] * 30
    assert [len(part) for part in split_indices(dataset, "16")] == [480, 120]
    train, test = split_indices(dataset, "10")
    assert (len(train), len(test)) == (300, 300)
    assert not set(train.tolist()) & set(test.tolist())


_FILES = {
    "set/cat/train/a.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n",
    "set/dog/test/b.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n",
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("EQUIGEO_CACHE", str(folder))
    return folder / "archives"


def _tar(path, files, mode="w:gz", **header):
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            for key, value in header.items():
                setattr(member, key, value)
            archive.addfile(member, io.BytesIO(data))
    return path


def _zip(path, files, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def _pack(path, files):
    """An archive of the format that its name tells."""
    if path.suffix == ".zip":
        return _zip(path, files)
    return _tar(path, files, "w:xz" if path.suffix == ".xz" else "w:gz")


def _left_behind(cache):
    return sorted(p.name for p in cache.iterdir()) if cache.exists() else []


@pytest.mark.parametrize("suffix", [".tar.gz", ".tgz", ".tar.xz", ".zip", ".TAR.GZ"])
def test_every_format_unpacks_to_the_same_data_set(tmp_path, suffix):
    dataset = load_mesh_folder(_pack(tmp_path / f"data{suffix}", _FILES))
    assert dataset.names == ("cat/train/a.obj", "dog/test/b.obj")


def test_an_archive_is_unpacked_once_for_each_content(tmp_path, cache):
    first = unpack_archive(_tar(tmp_path / "one.tar.gz", _FILES))
    marker = first / "marker"
    marker.touch()
    copy = tmp_path / "two.tar.gz"
    copy.write_bytes((tmp_path / "one.tar.gz").read_bytes())
    assert unpack_archive(copy) == first
    assert marker.exists()
    assert unpack_archive(_tar(tmp_path / "one.tar.gz", {"x": b"other"})) != first
    assert len(_left_behind(cache)) == 2


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "a\\..\\evil"])
@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path, cache, suffix, name):
    path = _pack(tmp_path / f"data{suffix}", {**_FILES, name: b"evil"})
    assert str(path) in refused("does not stay inside", unpack_archive, path)
    assert _left_behind(cache) == []
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, "zip"])
def test_links_and_devices_are_refused(tmp_path, cache, kind):
    if kind == "zip":
        member = zipfile.ZipInfo("link")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        path = _zip(tmp_path / "data.zip", {member: "/etc/passwd"})
    else:
        path = _tar(tmp_path / "data.tar.gz", {"link": b""}, type=kind, linkname="/etc/passwd")
    refused("'link' is neither a file nor a folder", unpack_archive, path)
    assert _left_behind(cache) == []


def test_a_member_without_a_name_is_refused(tmp_path, cache):
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("a", b"")
        archive.filelist[0].filename = ""
    refused("a member has no name", unpack_archive, tmp_path / "data.zip")
    assert _left_behind(cache) == []


def test_a_python_that_cannot_unpack_safely_is_named(tmp_path, cache, monkeypatch):
    monkeypatch.delattr(tarfile, "data_filter")
    with pytest.raises(
        ValueError, match=r"cannot unpack it safely; upgrade to 3\.10\.12, 3\.11\.4"
    ):
        unpack_archive(_tar(tmp_path / "data.tar.gz", _FILES))
    assert _left_behind(cache) == []
    assert unpack_archive(_zip(tmp_path / "data.zip", _FILES)).is_dir()


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
@pytest.mark.parametrize(
    ("limit", "most", "files", "message"),
    [
        ("MAX_MEMBERS", 3, {f"{k}.obj": b"" for k in range(4)}, "more than 3 members"),
        ("MAX_BYTES", 100_000, dict.fromkeys(("a", "b"), bytes(60_000)), "unpacks to more than 1"),
    ],
)
def test_bombs_are_refused(tmp_path, cache, monkeypatch, suffix, limit, most, files, message):
    monkeypatch.setattr(module, limit, most)
    refused(message, unpack_archive, _pack(tmp_path / f"data{suffix}", files))
    assert _left_behind(cache) == []


def test_bombs_in_headers_and_members_that_occur_twice_are_refused(tmp_path):
    # an extended header is read into memory whole
    member = tarfile.TarInfo("pax")
    member.type, member.size = tarfile.XHDTYPE, 1 << 30
    with gzip.open(tmp_path / "data.tar.gz", "wb") as file:
        file.write(member.tobuf() + bytes(1 << 20))
    refused("in one piece", unpack_archive, tmp_path / "data.tar.gz")
    path = tmp_path / "data.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("a.obj"), io.BytesIO())
    refused(r"'a.obj' occurs twice", unpack_archive, path)


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.xz", ".zip"])
@pytest.mark.parametrize("damage", ["empty", "noise", "truncated"])
def test_a_damaged_archive_is_one_error(tmp_path, cache, suffix, damage):
    files = {"a.obj": os.urandom(5000), "b.obj": os.urandom(5000)}
    path = _pack(tmp_path / f"data{suffix}", files)
    raw = path.read_bytes()
    path.write_bytes({"empty": b"", "noise": b"\1\2" * 500, "truncated": raw[:6000]}[damage])
    assert str(path) in refused("cannot unpack this archive", unpack_archive, path)
    assert _left_behind(cache) == []


def test_a_zip_that_lies_about_its_size_or_is_corrupted_is_refused(tmp_path, cache, monkeypatch):
    path = _zip(tmp_path / "data.zip", {"a.obj": b"x" * 1000}, zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"x" * 1000, b"x" * 999 + b"y"))
    assert zlib.crc32(b"x" * 1000) != zlib.crc32(b"x" * 999 + b"y")
    refused("cannot unpack this archive", unpack_archive, path)
    assert _left_behind(cache) == []
    path = _zip(tmp_path / "data.zip", {"a.obj": bytes(50_000)})
    raw = path.read_bytes().replace(struct.pack("<I", 50_000), struct.pack("<I", 10))
    path.write_bytes(raw)
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    refused("cannot unpack this archive", unpack_archive, path)


def test_names_that_the_file_system_refuses_and_long_names_are_one_short_error(tmp_path, cache):
    for files in ({"a": b"", "a/b": b""}, {"x" * 300: b""}):
        path = _tar(tmp_path / "data.tar.gz", files)
        refused("cannot unpack this archive", unpack_archive, path)
        assert _left_behind(cache) == []
    path = _zip(tmp_path / "long.zip", {"../" + "a" * 60_000 + "\n": b""})
    text = refused(r"cannot unpack this archive: member '\.\./aaa", unpack_archive, path)
    assert len(text) < len(str(path)) + 300


def test_a_full_or_unwritable_cache_is_named_with_the_remedy(tmp_path, cache, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.shutil, "copyfileobj", full)
    with pytest.raises(ValueError, match=r"No space left on device.*set EQUIGEO") as caught:
        unpack_archive(_tar(tmp_path / "data.tar.gz", _FILES))
    assert str(cache) in str(caught.value)
    assert _left_behind(cache) == []
    (tmp_path / "occupied").touch()
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "occupied"))
    refused("set EQUIGEO_CACHE", unpack_archive, _tar(tmp_path / "data.tar.gz", _FILES))


SPLIT = (0.7, 0.15, 0.15)


def parts_by_class(dataset):
    rows = torch.stack(parts_of(dataset), dim=1).long()
    return {
        name: tuple(rows[dataset.labels == i].sum(dim=0).tolist())
        for i, name in enumerate(dataset.classes)
    }


def test_a_folder_without_parts_is_split_by_fractions_in_each_class(tmp_path):
    for name, number in {"ant": 1, "bee": 2, "cow": 3, "dog": 20}.items():
        _write(tmp_path, *(f"{name}/{k}.obj" for k in range(number)))
    refused("found no class folders.*0.7,0.15,0.15", load_mesh_folder, tmp_path)
    dataset = load_mesh_folder(tmp_path, split=SPLIT)
    counts = {"ant": (1, 0, 0), "bee": (1, 0, 1), "cow": (1, 1, 1), "dog": (14, 3, 3)}
    assert parts_by_class(dataset) == counts
    assert sorted(dataset.names) == sorted({*dataset.names})
    _write(tmp_path, "asp/0.obj", "asp/1.obj")
    again = load_mesh_folder(tmp_path, split=SPLIT)
    kept = [i for i, name in enumerate(again.names) if not name.startswith("asp/")]
    assert tuple(again.names[i] for i in kept) == dataset.names
    assert torch.equal(again.in_train[kept], dataset.in_train)
    two = load_mesh_folder(tmp_path, split=np.array([0.5, 0.5]))
    assert (two.in_val, parts_by_class(two)["dog"]) == (None, (10, 0, 10))


def test_fractions_replace_the_parts_of_a_folder(tmp_path):
    _write(tmp_path, *(f"{c}/{part}/{k}.obj" for c in "ab" for part in ("train", "test")
                       for k in range(5)), "a/loose.obj")  # fmt: skip
    dataset = load_mesh_folder(tmp_path, split=SPLIT)
    assert parts_by_class(dataset) == {"a": (7, 2, 2), "b": (6, 2, 2)}
    refused("found no class folders", load_mesh_folder, tmp_path / "a", split=SPLIT)


@pytest.mark.parametrize(
    "split",
    [(0.7,), (0.7, 0.2), (1.0, 0.0), (0.5, -0.5, 1.0), (float("nan"), 1), np.ones(2), 0.5, "ab"],
)
def test_wrong_fractions_are_refused(split, tmp_path):
    for load in (load_mesh_folder, load_segmentation_folder, load_regression_folder):
        (tmp_path / "train").mkdir(exist_ok=True)
        refused("positive fractions of training", load, tmp_path, split=split)


def test_segmented_meshes_and_targets_are_split_by_fractions(tmp_path):
    _write(tmp_path, *(f"{k}.obj" for k in range(20)))
    _write(tmp_path, *(f"seg/{k}.seg" for k in range(20)), text="0\n0\n1\n1\n")
    rows = "\n".join(f"{k},{k}" for k in range(20))
    _write(tmp_path, "targets.csv", text=f"file,target\n{rows}")
    parts = load_segmentation_folder(tmp_path, split=SPLIT)
    (tmp_path / "seg").rename(tmp_path / ".seg")
    targets = load_regression_folder(tmp_path, split=SPLIT)
    assert parts.names == targets.names
    for dataset in (parts, targets):
        assert [int(part.sum()) for part in parts_of(dataset)] == [14, 3, 3]
    assert [float(x) for x in targets.targets] == [float(name[:-4]) for name in targets.names]
    refused("found no train, val or test.*0.7,0.15,0.15", load_regression_folder, tmp_path)
