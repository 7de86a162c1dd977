"""The cache folder and arrays in it."""

import errno
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

from equigeo.datasets.cache_folder import cache_folder
from equigeo.datasets.save_arrays import save_arrays


def test_the_variable_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache"
    assert not (tmp_path / "cache").exists()


def test_the_home_folder_and_relative_paths_are_resolved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EQUIGEO_CACHE", "~/data")
    assert cache_folder() == tmp_path / "home" / "data"
    monkeypatch.setenv("EQUIGEO_CACHE", "data")
    assert cache_folder() == Path.cwd() / "data"


def test_without_platformdirs_the_remedy_is_named(monkeypatch):
    monkeypatch.delenv("EQUIGEO_CACHE", raising=False)
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(ImportError, match="set EQUIGEO_CACHE"):
        cache_folder()


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
