import numpy as np
import pytest
import torch

from equigeo.datasets import PointClouds, load_modelnet_points
from equigeo.datasets import load_modelnet_points as function
from tests.shared_data import shared_data

_CLASSES = np.array(["chair", "table"])


def _write(folder, name="modelnet10_train.npz", **changes):
    rng = np.random.default_rng(0)
    arrays = {
        "points": rng.integers(-32767, 32768, (4, 16, 3)).astype(np.int16),
        "label": np.array([0, 1, 1, 0], np.uint8),
        "classes": _CLASSES,
    }
    arrays |= changes
    np.savez(folder / name, **{k: v for k, v in arrays.items() if v is not None})
    return arrays


def test_clouds_are_normalised(tmp_path):
    arrays = _write(tmp_path)
    clouds = load_modelnet_points(tmp_path)
    assert clouds.points.dtype == torch.float32
    assert clouds.classes == ("chair", "table")
    assert clouds.labels.tolist() == [0, 1, 1, 0]
    expected = torch.from_numpy(arrays["points"] / 32767)
    torch.testing.assert_close(clouds.points.double(), expected, rtol=2.0**-23, atol=0)


class _Bomb:
    def __reduce__(self):
        return print, ("boom",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": None}, "has no array points"),
        ({"points": np.zeros((4, 16, 3))}, "points must be int16, got float64"),
        ({"points": np.zeros((4, 16, 2), np.int16)}, r"\(clouds, points, 3\)"),
        ({"points": np.zeros((0, 16, 3), np.int16)}, r"\(clouds, points, 3\)"),
        ({"label": np.zeros(3, np.uint8)}, r"\(4,\), got torch.int64 \(3,\)"),
        ({"label": np.full(4, 2, np.uint8)}, "positions in 2 classes, got 2 to 2"),
        ({"classes": np.array([1, 2])}, "classes must be text"),
        ({"classes": np.array(["a", "a"])}, "different names"),
        ({"classes": np.array([_Bomb(), None], dtype=object)}, "cannot be read"),
    ],
)
def test_another_content_is_refused_with_the_name_of_the_file(tmp_path, changes, message, capsys):
    _write(tmp_path, "modelnet10_test_a.npz", **changes)
    with pytest.raises(ValueError, match=message) as caught:
        load_modelnet_points(tmp_path, "test")
    assert "modelnet10_test_a.npz" in str(caught.value)
    assert capsys.readouterr().out == ""


def test_a_damaged_file_is_one_error(tmp_path):
    _write(tmp_path)
    path = tmp_path / "modelnet10_train.npz"
    whole = path.read_bytes()
    damaged = (b"", b"PK\3\4nothing", b"\1\2" * 600, whole[:-100])
    for broken in (*damaged, whole[:300] + b"\xff" + whole[301:]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"modelnet10_train\.npz: cannot be read"):
            load_modelnet_points(tmp_path)


def test_missing_and_too_large_files_and_unknown_parts_are_named(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"modelnet10_train\.npz: no such file"):
        load_modelnet_points(tmp_path)
    with pytest.raises(ValueError, match="part must be train or test"):
        load_modelnet_points(tmp_path, "dev")
    _write(tmp_path)
    monkeypatch.setitem(function.__globals__, "MAX_BYTES", 100)
    with pytest.raises(ValueError, match="bytes, more than 100"):
        load_modelnet_points(tmp_path)


def test_clouds_that_do_not_fit_together_are_refused():
    points, labels = torch.zeros(2, 5, 3), torch.tensor([0, 1])
    with pytest.raises(ValueError, match="points must be finite"):
        PointClouds(points / 0, labels, ("a", "b"))
    with pytest.raises(ValueError, match=r"got torch\.int64"):
        PointClouds(points.long(), labels, ("a", "b"))
    with pytest.raises(ValueError, match=r"labels must be torch.int64 \(2,\)"):
        PointClouds(points, labels.int(), ("a", "b"))


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
