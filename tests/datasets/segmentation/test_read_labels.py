import numpy as np
import pytest

from equigeo.datasets.segmentation.read_labels import read_labels, read_soft_labels


def _file(folder, content, name="a.seg"):
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        b"1\n2\n0\n",
        b"1\r\n2\r\n0",
        b"1.000000e+00\n2.0\n0\n\n\n",
        b" 1 \n\t2\n 0",
        b"\xef\xbb\xbf1\n2\n0\n",
    ],
)
def test_labels_are_read_as_programs_write_them(tmp_path, content):
    assert read_labels(_file(tmp_path, content)).tolist() == [1, 2, 0]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_arrays_are_read(tmp_path, dtype, shape):
    np.save(tmp_path / "a.npy", np.array([1, 2, 0], dtype).reshape(shape))
    assert read_labels(tmp_path / "a.npy").tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"1\n2.5\n", "line 2: a label must be an integer from 0 to 1000, got 2.5"),
        (b"1\n-1\n", "line 2: .* got -1"),
        (b"nan\n1\n", "line 1: .* got nan"),
        (b"1\ninf\n", "line 2: .* got inf"),
        (b"1\n1001\n", "line 2: .* got 1001"),
        (b"1\n99999999999999999999999999\n", "line 2"),
        (b"1\ntwo\n", "line 2: must hold numbers, got 'two'"),
        (b"1\n\n2\n", "line 2 has 0 numbers, the first has 1"),
        (b"1 2\n3 4\n", "one label a line"),
        (b"1 2\n3\n", "line 2 has 1 numbers"),
        (b"\xff\xfe\x00\x81", "is no text"),
        (b"<html>", "line 1: must hold numbers"),
    ],
)
def test_texts_that_hold_no_labels_are_refused(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_labels(_file(tmp_path, content))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([{}], dtype=object), "no array of NumPy without objects"),
        (np.array(["a"]), "one array of integers"),
        (np.array([1.5]), "line 1"),
        (np.array([np.nan]), "line 1"),
        (np.array([True]), "one array of integers"),
        (np.zeros((2, 2), int), "one label a line"),
        (np.zeros(0, int), "is empty"),
    ],
)
def test_arrays_that_hold_no_labels_are_refused(tmp_path, values, message):
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(ValueError, match=message):
        read_labels(tmp_path / "a.npy")


def test_archives_of_arrays_and_damaged_ones_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", labels=np.zeros(3, int))
    archive = _file(tmp_path, (tmp_path / "a.npz").read_bytes(), "a.npy")
    with pytest.raises(ValueError, match="several arrays"):
        read_labels(archive)
    np.save(tmp_path / "b.npy", np.zeros(100, int))
    sound = (tmp_path / "b.npy").read_bytes()
    huge = sound.replace(b"(100,)", b"(9" + b"0" * 12 + b",)")
    for content in (b"", b"x", sound[:-5], sound[:20], huge):
        with pytest.raises(ValueError, match=r"is empty|no array of NumPy"):
            read_labels(_file(tmp_path, content, "c.npy"))


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not a regular file"):
        read_labels(tmp_path)
    with pytest.raises(ValueError, match="not a regular file"):
        read_labels(tmp_path / "nowhere.seg")


def test_soft_labels_are_rows(tmp_path):
    rows = read_soft_labels(_file(tmp_path, b"0.25 0.75 0\n1.000 0 0.0\n"))
    assert rows.tolist() == [[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"0.5 0.5\n1\n", "line 2 has 1 numbers, the first has 2"),
        (b"0.5 0.5\n1 nan\n", "line 2: must hold shares, got nan"),
        (b"0.5 -0.5\n", "line 1: must hold shares"),
        (b"0.5 x\n", "line 1: must hold numbers, got 'x'"),
    ],
)
def test_soft_labels_that_are_none_are_refused(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_soft_labels(_file(tmp_path, content))
