import json
from pathlib import Path

import pytest

from equigeo import __version__
from equigeo.ops import first_use as verdicts
from equigeo.ops.first_use import SIMULATED, Verdict, key_of, read_verdict, write_verdict

PASSED = Verdict("passed", "2026-01-02T03:04:05+00:00", 0.8, 25, "gather_sum")
KEY = {"device": "NVIDIA H100", "library": "0" * 64}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("EQUIGEO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def the_file(cache: Path) -> Path:
    (file,) = (cache / "equigeo" / "self-tests").iterdir()
    return file


def test_a_verdict_is_kept_for_its_key_alone(cache):
    assert read_verdict(KEY) is None
    write_verdict(KEY, PASSED)
    assert read_verdict(KEY) == PASSED
    assert read_verdict(KEY | {"library": "1" * 64}) is None
    assert the_file(cache).suffix == ".json"  # and nothing that was half written


def test_the_cache_may_be_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "chosen"))
    write_verdict(KEY, PASSED)
    assert len(list((tmp_path / "chosen" / "self-tests").iterdir())) == 1
    monkeypatch.delenv("EQUIGEO_CACHE")
    assert read_verdict(KEY) is None


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_truncated_file_is_as_good_as_none(cache, share):
    write_verdict(KEY, PASSED)
    file = the_file(cache)
    text = file.read_text().rstrip()
    file.write_text(text[: int(share * len(text))])
    assert read_verdict(KEY) is None
    write_verdict(KEY, PASSED)
    assert read_verdict(KEY) == PASSED


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b"{}",
        json.dumps({"key": KEY, "verdict": {"state": "passed"}}).encode(),
        json.dumps({"key": KEY, "verdict": {**vars(PASSED), "state": "trusted"}}).encode(),
        json.dumps({"key": KEY, "verdict": {**vars(PASSED), "when": 3}}).encode(),
        json.dumps({"key": KEY, "verdict": {**vars(PASSED), "more": 3}}).encode(),
        json.dumps({"key": {}, "verdict": vars(PASSED)}).encode(),
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_as_good_as_none(cache, content):
    write_verdict(KEY, PASSED)
    the_file(cache).write_bytes(content)
    assert read_verdict(KEY) is None


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("EQUIGEO_CACHE", str(file))
    write_verdict(KEY, PASSED)
    assert read_verdict(KEY) is None


def test_a_verdict_is_about_content_device_driver_and_versions(tmp_path, monkeypatch):
    library = tmp_path / "one.so"
    library.write_bytes(b"kernels")
    key = key_of(SIMULATED, str(library))
    assert key["device"] == "simulator"
    assert key["capability"] == "sm_90"
    assert key["equigeo"] == __version__
    other = tmp_path / "two.so"
    other.write_bytes(b"other kernels")
    assert key_of(SIMULATED, str(other))["library"] != key["library"]
    monkeypatch.setattr(verdicts, "_card", lambda index: ("NVIDIA H100", "sm_90", "CUDA 12.8"))
    assert key_of(1, str(library))["driver"] == "CUDA 12.8"


def test_a_failure_is_no_pass():
    assert PASSED.has_passed
    assert not Verdict("failed", PASSED.when, 0.8, 3, "gather_sum").has_passed
