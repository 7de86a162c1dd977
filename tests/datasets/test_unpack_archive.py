import errno
import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib

import pytest

from equigeo.datasets import archive as module
from equigeo.datasets import load_mesh_folder
from equigeo.datasets.archive import unpack_archive
from tests.wrong_inputs import refused

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
