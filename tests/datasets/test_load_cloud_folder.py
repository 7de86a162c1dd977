import re

import numpy as np
import pytest
import torch
import trimesh

from equigeo.datasets import PointClouds, load_cloud_folder, load_modelnet_points, read_cloud
from equigeo.datasets import cache as save_arrays
from equigeo.datasets.clouds import normalized_cloud
from equigeo.tasks.pointcloud import PointCloudClassification, PointConfig
from equigeo.tasks.pointcloud.task import load_clouds
from tests.make_data import DATA
from tests.shared_data import shared_data
from tests.wrong_inputs import refused

POINTS = np.random.default_rng(0).standard_normal((60, 3))


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))


def write(path, points=POINTS):
    """Write a cloud in the format of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, points.astype(np.float32))
    elif path.suffix == ".npz":
        np.savez(path, points=points, normals=points)
    elif path.suffix == ".xyz":
        np.savetxt(path, points)
    else:
        trimesh.PointCloud(points).export(path)
    return path


@pytest.fixture
def folder(tmp_path):
    """Two classes with files of every format, and one mesh."""
    root = tmp_path / "scans"
    for name in ("cup", "pot"):
        for k, suffix in enumerate((".npy", ".npz", ".xyz", ".ply")):
            write(root / name / "train" / f"{k}{suffix}")
        write(root / name / "test" / "9.xyz", POINTS[:50])
    trimesh.creation.icosphere(2).export(root / "cup" / "test" / "ball.off")
    (root / "cup" / "train" / "notes.txt").write_text("no cloud")
    return root


def test_all_formats_are_read_and_clouds_are_equally_large(folder):
    train, test = load_cloud_folder(folder, 40)
    assert (len(train), len(test), train.classes) == (8, 3, ("cup", "pot"))
    assert train.points.shape[1:] == test.points.shape[1:] == (50, 3)
    assert train.points.dtype == torch.float32
    low, high = train.points.amin(1), train.points.amax(1)
    torch.testing.assert_close((high - low).amax(1), torch.full((8,), 2.0))
    # float32 numbers of order one
    torch.testing.assert_close(high + low, torch.zeros(8, 3), atol=1e-6, rtol=0)
    again, _ = load_cloud_folder(folder, 40)
    assert torch.equal(train.points, again.points)
    assert not torch.equal(train.points[0], train.points[1])  # another part is drawn of each


def test_points_are_those_of_the_file_without_remarks(tmp_path):
    expected = np.sort(POINTS, axis=0)
    for suffix in (".npy", ".npz", ".xyz", ".ply"):
        found = read_cloud(write(tmp_path / f"a{suffix}"), 10)
        # float32 numbers of order one
        np.testing.assert_allclose(np.sort(found, axis=0), expected, atol=1e-6)
    cloud = normalized_cloud(POINTS, 100)
    half = np.ptp(POINTS, axis=0).max() / 2
    middle = (POINTS.min(0) + POINTS.max(0)) / 2
    # float32 numbers of order one
    np.testing.assert_allclose(cloud.numpy(), (POINTS - middle) / half, atol=1e-6)
    file = tmp_path / "a.xyz"
    file.write_text("\ufeff# x y z red\n1, 2, 3, 255\n\n4 5 6 0 1\n", encoding="utf-8")
    assert read_cloud(file, 2).tolist() == [[1, 2, 3], [4, 5, 6]]
    np.save(tmp_path / "b.npy", np.arange(12).reshape(2, 6))
    assert read_cloud(tmp_path / "b.npy", 2).tolist() == [[0, 1, 2], [6, 7, 8]]


def test_surfaces_of_every_mesh_format_are_sampled_evenly_once(tmp_path):
    for suffix in (".off", ".obj", ".ply", ".stl", ".glb", ".STL"):
        file = tmp_path / f"ball{suffix}"
        trimesh.creation.icosphere(3).export(file, file_type=suffix[1:].lower())
        found = read_cloud(file, 64)
        assert found.shape == (64, 3)
        # flat faces lie up to 2 % inside of the sphere
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=0.02)
        assert PointCloudClassification.suffixes.count(suffix.lower()) == 1
        if suffix == ".off":
            gaps = np.linalg.norm(found[:, None] - found[None], axis=-1) + 9 * np.eye(64)
            assert gaps.min() > 0.2  # of 64 uniform points, two are nearer than that
            (cached,) = (tmp_path / "cache").glob("surface_*.npz")
            assert np.array_equal(read_cloud(file, 64), found)
            cached.unlink()
            assert np.array_equal(read_cloud(file, 64), found)


def bomb():
    raise AssertionError


def npy_header(shape):
    """A file of NumPy whose header claims more than it holds."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(480)


BAD = {
    "empty.xyz": (b"", "has no points"),
    "word.xyz": (b"1 2 3\n1 x 3\n", "line 2 has a coordinate that is no number"),
    "short.xyz": (b"1 2\n", "line 1 has 2 coordinates, expected 3"),
    "nan.xyz": (b"1 2 nan\n", "not finite"),
    "far.xyz": (b"1 2 1e300\n", "not finite, or beyond 1e+15"),
    "underscore.xyz": (b"1_0 2 3\n", "line 1 has a coordinate that is no number"),
    "comma.xyz": (b"1,5 2,5 3,5\n", "line 1 has commas and blanks between numbers"),
    "bytes.xyz": (b"\xff\xfe\x00\x01", "line 1 has a coordinate"),
    "one.xyz": (b"1 2 3\n" * 50, "has all its points in one place"),
    "few.xyz": (b"1 2 3\n4 5 6\n", "has 2 points, expected 40"),
    "text.npy": (b"hello", "cannot be read as an array"),
    "cut.npz": (b"PK\x03\x04", "cannot be read as an array"),
    "flat.npy": (np.zeros(9), "must have numbers (points, 3 or more), got float64 (9,)"),
    "claim.npy": (npy_header("(2000000000, 3)"), "cannot be read as an array"),
    "turned.npy": (np.zeros((3, 40)), "must have a point per row, got (3, 40); transpose it"),
    "plane.npy": (np.zeros((9, 2)), "must have numbers (points, 3 or more)"),
    "words.npy": (np.array([["a", "b", "c"]]), "must have numbers"),
    "object.npy": (np.array([bomb], dtype=object), "cannot be read as an array"),
    "none.npy": (np.zeros((0, 3)), "has no points"),
    "empty.off": (b"", "is empty"),
    "flat.off": (b"OFF\n3 1 0\n0 0 0\n1 0 0\n2 0 0\n3 0 1 2\n", "cannot be sampled"),
    "index.off": (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 7\n", "7"),
    "two.npz": ({"a": POINTS, "b": POINTS}, "has 2 arrays, none of them called 'points'"),
}


OF_A_FOLDER = ("one.xyz", "few.xyz", "nan.xyz")  # the first two are no errors of a file alone


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_error_that_names_it(name, folder):
    content, part = BAD[name]
    path = folder / "pot" / "train" / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        np.savez(path, **content)
    else:
        np.save(path, content, allow_pickle=True)
    if name not in OF_A_FOLDER:
        refused(re.escape(part), read_cloud, path, 40)
        return
    text = refused("1 of 12 cloud files cannot be used", load_cloud_folder, folder, 40)
    assert f"pot/train/{name}: " in text
    assert part in text


def test_layouts_that_are_none_are_refused(folder, tmp_path):
    for path in folder.glob("*/test/*"):
        path.unlink()
    refused("no class has a file in test", load_cloud_folder, folder, 40)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"no class folders; expected <class>/\{train,val,test\}"):
        load_cloud_folder(tmp_path / "empty")
    with pytest.raises(ValueError, match="only the class 'cup'"):
        load_cloud_folder((folder / "pot").rename(tmp_path / "pot").parent / "scans", 40)


def test_the_committed_clouds_are_what_a_run_takes():
    train, test, _ = load_clouds(PointConfig(str(DATA / "clouds"), points=200))
    assert train.classes == ("bird", "glasses", "horse")
    assert (train.points.shape, test.points.shape) == ((9, 256, 3), (3, 200, 3))
    with pytest.raises(ValueError, match="has 256 points, expected 1024; ask for fewer"):
        load_clouds(PointConfig(str(DATA / "clouds")))


def _write(folder, name="modelnet10_train.npz", **changes):
    points = np.random.default_rng(0).integers(-32767, 32768, (4, 16, 3)).astype(np.int16)
    arrays = {"points": points, "label": np.array([0, 1, 1, 0], np.uint8)}
    arrays |= {"classes": np.array(["chair", "table"])} | changes
    np.savez(folder / name, **{k: v for k, v in arrays.items() if v is not None})
    return arrays


def test_clouds_are_normalised_and_must_fit_together(tmp_path):
    arrays = _write(tmp_path)
    clouds = load_modelnet_points(tmp_path)
    assert clouds.points.dtype == torch.float32
    assert clouds.classes == ("chair", "table")
    assert clouds.labels.tolist() == [0, 1, 1, 0]
    expected = torch.from_numpy(arrays["points"] / 32767)
    torch.testing.assert_close(clouds.points.double(), expected, rtol=2.0**-23, atol=0)
    points, labels = torch.zeros(2, 5, 3), torch.tensor([0, 1])
    refused("points must be finite", PointClouds, points / 0, labels, ("a", "b"))
    refused(r"got torch\.int64", PointClouds, points.long(), labels, ("a", "b"))
    refused(r"labels must be torch.int64 \(2,\)", PointClouds, points, labels.int(), ("a", "b"))


class _Bomb:
    def __reduce__(self):
        return print, ("boom",)


def test_another_content_is_refused_with_the_name_of_the_file(tmp_path, capsys):
    for changes, message in (
        ({"points": None}, "has no array points"),
        ({"points": np.zeros((4, 16, 3))}, "points must be int16, got float64"),
        ({"points": np.zeros((4, 16, 2), np.int16)}, r"\(clouds, points, 3\)"),
        ({"points": np.zeros((0, 16, 3), np.int16)}, r"\(clouds, points, 3\)"),
        ({"label": np.zeros(3, np.uint8)}, r"\(4,\), got torch.int64 \(3,\)"),
        ({"label": np.full(4, 2, np.uint8)}, "positions in 2 classes, got 2 to 2"),
        ({"classes": np.array([1, 2])}, "classes must be text"),
        ({"classes": np.array(["a", "a"])}, "different names"),
        ({"classes": np.array([_Bomb(), None], dtype=object)}, "cannot be read"),
    ):
        _write(tmp_path, "modelnet10_test_a.npz", **changes)
        assert "modelnet10_test_a.npz" in refused(message, load_modelnet_points, tmp_path, "test")
        assert capsys.readouterr().out == ""


def test_damaged_missing_and_too_large_files_are_one_error(tmp_path, monkeypatch):
    _write(tmp_path)
    path = tmp_path / "modelnet10_train.npz"
    whole = path.read_bytes()
    damaged = (b"", b"PK\3\4nothing", b"\1\2" * 600, whole[:-100])
    for broken in (*damaged, whole[:300] + b"\xff" + whole[301:]):
        path.write_bytes(broken)
        refused(r"modelnet10_train\.npz: cannot be read", load_modelnet_points, tmp_path)
    path.unlink()
    refused(r"modelnet10_train\.npz: no such file", load_modelnet_points, tmp_path)
    refused("part must be train or test", load_modelnet_points, tmp_path, "dev")
    _write(tmp_path)
    monkeypatch.setattr(save_arrays, "MAX_BYTES", 100)
    refused("bytes, more than 100", load_modelnet_points, tmp_path)


def test_the_published_clouds_are_read():
    folder = shared_data("modelnet10_points")
    clouds = load_modelnet_points(folder, "test")
    assert clouds.points.shape == (454, 1024, 3)
    assert clouds.classes[:2] == ("bathtub", "bed")
    assert clouds.labels.bincount().tolist() == [25, 50, 50, 43, 43, 50, 43, 50, 50, 50]
    extent = clouds.points.abs().amax(1).amax(1)
    assert torch.equal(extent, torch.ones(454))
    number = len(load_modelnet_points(folder))
    assert number == 3991
