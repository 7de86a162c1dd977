import json
import sys

import pytest

from equigeo.cli import data as command
from equigeo.cli import main
from equigeo.cli.data import progress
from equigeo.datasets.registry import catalogue as data_sets
from equigeo.datasets.registry.catalogue import DataSet
from tests.datasets.registry.server import server
from tests.datasets.tsplib_files import write_library
from tests.shared_data import COMMITTED

__all__ = ["server"]


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data"


@pytest.fixture
def toy(server, monkeypatch):
    """A data set of one file that the server has, known to the program."""
    files = (server.file(sha256=None, bytes=None),)
    entry = DataSet("toy", "a toy", ("affnist",), "none", "here", files, manual="make one")
    for module in (command, data_sets):
        monkeypatch.setattr(module, "DATA_SETS", (entry,))
    return entry


def run(capsys, *arguments):
    status = main(["data", *map(str, arguments)])
    return status, *capsys.readouterr()


def test_the_list_says_what_to_type_and_is_json_on_demand(capsys, tmp_path):
    status, out, _ = run(capsys, "list")
    assert status == 0
    assert "mnist  (absent, 11.6 MB)" in out
    assert "get it by: equigeo data fetch shrec11" in out
    assert "by hand: git clone" in out
    assert str(tmp_path) in out
    status, out, err = run(capsys, "convert", "tsplib", write_library(tmp_path / "lib"), "--quiet")
    assert (status, err) == (0, "")
    assert "tsplib" in out
    _, out, _ = run(capsys, "list")
    assert "tsplib  (present, size unknown)" in out
    assert f"equigeo evaluate CHECKPOINT --data {tmp_path}/data/tsplib/instances" in out
    status, out, _ = run(capsys, "list", "--json")
    found = {entry["name"]: entry for entry in json.loads(out)}
    assert status == 0
    assert found["mnist"]["bytes"] == 11594722
    assert found["princeton"]["is_present"] is False


def test_a_data_set_is_fetched_verified_and_found_damaged(capsys, toy, root):
    status, out, err = run(capsys, "fetch", "toy")
    assert status == 0
    assert "recorded now" in out
    assert f"equigeo train affnist --data {root}/toy/a.bin" in out
    assert "toy: none; from here" in err
    assert "a.bin: 100%" in err
    assert "there already" in run(capsys, "fetch", "toy")[1]
    status, out, _ = run(capsys, "verify")
    assert (status, out.split()[:2]) == (0, ["recorded", "toy/a.bin"])
    (root / "toy" / "a.bin").write_bytes(b"damaged")
    status, out, _ = run(capsys, "verify", "toy", "--json")
    assert (status, json.loads(out)["toy"][0]["state"]) == (1, "wrong")
    (root / "toy" / "a.bin").unlink()
    (root / "toy" / "checksums.json").unlink()
    status, out, err = run(capsys, "fetch", "toy", "--quiet")
    assert (status, err) == (0, "")
    assert "a.bin" in out


def test_what_cannot_be_fetched_is_one_message_with_the_way_by_hand(capsys, toy, server):
    server.status = 403
    status, out, err = run(capsys, "fetch", "toy")
    assert (status, out) == (2, "")
    assert "the server returned 403 Forbidden; or by hand: make one; its files belong into" in err


def test_nothing_to_verify_is_said(capsys):
    status, out, _ = run(capsys, "verify")
    assert status == 0
    assert "nothing is present" in out
    status, out, _ = run(capsys, "verify", "mnist")
    assert status == 1
    assert "missing   mnist/train-images-idx3-ubyte.gz" in out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("fetch", "nothing"), "data set must be one of shrec11"),
        (("convert", "mnist", "nowhere"), "nowhere: no such file"),
        (("convert", "mnist", COMMITTED / "mnist"), "is not the published file"),
        (("fetch",), "NAME"),
        ((), "ACTION"),
    ],
)
def test_errors_are_one_message(capsys, arguments, part):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert part in err
    assert err.count("equigeo: error: ") == 1


def test_progress_is_shown_by_tqdm_where_it_is_installed(capsys, monkeypatch):
    pytest.importorskip("tqdm")
    show = progress("a.bin", "B")
    for done in range(0, 2_000_001, 100_000):
        show(done, 2_000_000)
    assert "100%" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert progress("a.bin", "B") is None
    assert main(["data", "--help"]) == 0
