"""Files that are written whole or not at all, and the cache folder."""

import errno
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from equigeo._core.files import remove_unfinished, replace_file
from equigeo.datasets.archive import unpack_archive
from equigeo.datasets.cache import cache_folder, save_arrays
from equigeo.datasets.registry.download import record_checksums
from equigeo.training import Checkpoint
from tests.wrong_inputs import refused

_SIZE = 1 << 16
_WRITER = """
import sys
from pathlib import Path
from equigeo._core.files import replace_file

path, letter, size = Path(sys.argv[1]), sys.argv[2].encode(), int(sys.argv[3])

def write(file):
    for _ in range(size):
        file.write(letter)  # slowly, so that others come in between
        file.flush() if _ % 4096 == 0 else None

while True:
    replace_file(path, write)
"""


@pytest.mark.full
def test_two_writers_of_one_file_never_mix(tmp_path):
    path = tmp_path / "model.ckpt"
    command = [sys.executable, "-c", _WRITER, path]
    writers = [subprocess.Popen([*command, letter, str(_SIZE)]) for letter in "ab"]
    try:
        seen = []
        while len(seen) < 300 or len(set(seen)) < 2:
            if path.exists():
                content = path.read_bytes()
                assert content in (b"a" * _SIZE, b"b" * _SIZE)
                seen.append(content[:1])
            assert all(writer.poll() is None for writer in writers)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    remove_unfinished(path)
    assert os.listdir(tmp_path) == ["model.ckpt"]


def test_files_of_others_stay_and_arrays_replace_what_was_there(tmp_path):
    names = [".model.ckpt.0.tmp", ".other.0.tmp", "model.ckpt"]
    for name in names:
        (tmp_path / name).write_text("")
    remove_unfinished(tmp_path / "model.ckpt")
    assert sorted(os.listdir(tmp_path)) == names[1:]
    path = tmp_path / "new" / "folder" / "arrays.npz"
    for number in (3, 5):
        save_arrays(path, {"a": np.arange(number), "b": np.ones(2)})
        with np.load(path, allow_pickle=False) as stored:
            assert stored["a"].tolist() == list(range(number))
            assert stored["b"].tolist() == [1.0, 1.0]
    assert [file.name for file in path.parent.iterdir()] == ["arrays.npz"]


def _no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


WRITERS = {
    "text": lambda path: replace_file(path, "new"),
    "arrays": lambda path: save_arrays(path, {"a": np.arange(5)}),
    "checkpoint": Checkpoint("tsp", {}, {}, {}).save,
}


@pytest.mark.parametrize(
    ("step", "write"),
    [
        ("write", lambda path: replace_file(path, _no_space)),
        *((step, write) for step in ("fsync", "replace") for write in WRITERS.values()),
    ],
    ids=["write", *(f"{step} {name}" for step in ("fsync", "replace") for name in WRITERS)],
)
def test_a_full_disk_names_the_file_and_leaves_the_old_one(step, write, tmp_path, monkeypatch):
    path = tmp_path / "history.npz"
    replace_file(path, "old")
    if step != "write":
        monkeypatch.setattr(os, step, _no_space)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write(path)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["history.npz"]


def test_the_mask_of_permissions_is_that_of_the_process_alone(tmp_path, monkeypatch):
    # Another thread that makes a file while the mask is changed would give it to everybody.
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("changes the mask of the process"))
    replace_file(tmp_path / "a", b"content")
    save_arrays(tmp_path / "b.npz", {"a": np.arange(3)})
    record_checksums(tmp_path, {"a": "0"})
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("a/train/1.off", "OFF")
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))
    assert (unpack_archive(tmp_path / "c.zip") / "a").is_dir()


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_the_permissions_are_the_ordinary_ones(write, tmp_path):
    old = os.umask(0o027)
    try:
        write(tmp_path / "a.npz")
    finally:
        os.umask(old)
    assert (tmp_path / "a.npz").stat().st_mode & 0o777 == 0o640


def test_the_variable_names_the_cache_folder_or_platformdirs_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EQUIGEO_CACHE", "~/data")
    assert cache_folder() == tmp_path / "home" / "data"
    monkeypatch.setenv("EQUIGEO_CACHE", "data")
    assert cache_folder() == Path.cwd() / "data"
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache"
    assert not (tmp_path / "cache").exists()
    monkeypatch.delenv("EQUIGEO_CACHE")
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    refused("set EQUIGEO_CACHE", cache_folder, error=ImportError)
