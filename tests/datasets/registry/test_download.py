import errno
import hashlib
import os
import stat

import pytest

from equigeo.datasets.registry import download as module
from equigeo.datasets.registry.access import find_data
from equigeo.datasets.registry.catalogue import DataFile, find_data_set, is_allowed
from equigeo.datasets.registry.download import DownloadError, download
from tests.datasets.registry.server import CONTENT
from tests.wrong_inputs import refused

DIGEST = hashlib.sha256(CONTENT).hexdigest()


def fails(message, file, path):
    refused(message, download, file, path, error=DownloadError)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_fetched_whole_and_readable(server, tmp_path):
    told = []
    digest = download(server.file(), tmp_path / "new" / "a.bin", lambda *x: told.append(x))
    path = tmp_path / "new" / "a.bin"
    assert (digest, path.read_bytes()) == (DIGEST, CONTENT)
    assert names(path.parent) == ["a.bin"]
    assert told[0] == (0, len(CONTENT))
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_a_transfer_that_breaks_off_is_repeated_twice(server, tmp_path):
    server.breaks_after = [1000, 2000]
    assert download(server.file(), tmp_path / "a.bin") == DIGEST
    assert server.answers == 3
    assert names(tmp_path) == ["a.bin"]
    (tmp_path / "a.bin").unlink()
    server.breaks_after = [1000] * module.TRIES
    fails(r"broke off 3 times .*; fetch again", server.file(), tmp_path / "a.bin")
    assert names(tmp_path) == []


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"old")
    fails(
        f"has the SHA-256 {DIGEST}, expected {'0' * 64}",
        server.file(sha256="0" * 64),
        tmp_path / "a.bin",
    )
    assert names(tmp_path) == ["a.bin"]
    assert (tmp_path / "a.bin").read_bytes() == b"old"


@pytest.mark.parametrize("to", ["ftp://127.0.0.1/a", "file:///etc/passwd", "http://example.org/a"])
def test_no_redirect_to_another_scheme_is_followed(server, tmp_path, to):
    server.redirect = to
    fails(r"only addresses of https|is not allowed", server.file(), tmp_path / "a.bin")
    assert names(tmp_path) == []


def test_only_https_is_asked(server, tmp_path, monkeypatch):
    file = server.file()
    monkeypatch.setattr(module, "is_allowed", is_allowed)
    fails(r"127\.0\.0\.1.* only addresses of https", file, tmp_path / "a.bin")
    assert server.answers == 0


@pytest.mark.parametrize("tells_length", [True, False])
@pytest.mark.parametrize("size", [100, None])
def test_a_file_that_is_too_large_is_refused(server, tmp_path, monkeypatch, tells_length, size):
    server.tells_length = tells_length
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    fails(r"larger than 100|expected 100", server.file(bytes=size), tmp_path / "a.bin")
    assert "a.bin" not in names(tmp_path)


def test_a_full_disk_is_said_and_other_errors_of_the_system_stay(server, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", full)
        fails(r"a\.bin: the disk is full; make space, or set", server.file(), tmp_path / "a.bin")
    assert "a.bin" not in names(tmp_path)

    def refuse(*arguments):
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(module.os, "replace", refuse)
    refused("denied", download, server.file(), tmp_path / "a.bin", error=PermissionError)


def test_answers_of_servers_and_absent_servers_are_named(server, tmp_path):
    for status in (403, 404, 500):
        server.status = status
        fails(f"the server says {status}", server.file(), tmp_path / "a.bin")
    file = DataFile("a.bin", "http://127.0.0.1:1/a.bin")
    fails(r"127\.0\.0\.1:1/a\.bin: cannot be reached", file, tmp_path / "a.bin")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "http://example.org/a"), "expected an address of https"),
        (("../a",), "below the folder"),
        (("/a",), "below the folder"),
        (("",), "below the folder"),
        (("a", "", 1, "123"), "64 hexadecimal digits"),
    ],
)
def test_an_entry_that_cannot_be_right_is_refused(arguments, message):
    refused(message, DataFile, *arguments)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_DATA", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "data"


def put(name):
    """Let all files of a data set be there."""
    entry = find_data_set(name)
    for file in entry.used:
        (entry.path / file).parent.mkdir(parents=True, exist_ok=True)
        (entry.path / file).write_text("")


def test_data_are_found_by_path_and_by_name(root, tmp_path):
    put("rmd17"), put("shrec11")
    assert find_data("rmd17", "potential") == root / "rmd17"
    where = root / "shrec11_meshcnn" / "shrec_16.tar.gz"  # one file is what readers take
    assert find_data("shrec11", "mesh-classification") == where
    put("mnist")
    assert find_data("./mnist", "affnist") == tmp_path / "here" / "mnist"
    (tmp_path / "here" / "mnist").mkdir()
    assert find_data("mnist", "affnist") == tmp_path / "here" / "mnist"
    assert find_data("nowhere", "affnist") == tmp_path / "here" / "nowhere"


def test_one_that_is_absent_or_of_another_task_is_refused(root):
    refused(r"^qm9: no such file or folder; get it by: equigeo data", find_data, "qm9", "potential")
    put("qm9")
    refused("the data set qm9 is for the task potential", find_data, "qm9", "affnist")
