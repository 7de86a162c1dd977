"""Arrays in the cache: whole or not at all, and readable by whoever may read the folder."""

import errno
import os
import stat

import numpy as np
import pytest

from equigeo.datasets.save_arrays import save_arrays


def test_arrays_come_back_and_replace_what_was_there(tmp_path):
    path = tmp_path / "new" / "folder" / "arrays.npz"
    for number in (3, 5):
        save_arrays(path, {"a": np.arange(number), "b": np.ones(2)})
        with np.load(path, allow_pickle=False) as stored:
            assert stored["a"].tolist() == list(range(number))
            assert stored["b"].tolist() == [1.0, 1.0]
    assert [file.name for file in path.parent.iterdir()] == ["arrays.npz"]


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "arrays.npz"
    save_arrays(path, {"a": np.arange(3)})
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        save_arrays(path, {"a": np.arange(5)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device.*arrays\.npz") as caught:
        save_arrays(tmp_path / "arrays.npz", {"a": np.arange(5)})
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_are_those_of_an_ordinary_file(tmp_path, mask):
    before = os.umask(mask)
    try:
        save_arrays(tmp_path / "arrays.npz", {"a": np.arange(3)})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "arrays.npz").stat().st_mode) == 0o666 & ~mask
