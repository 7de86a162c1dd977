"""How results are kept: whole, with circumstances, and never taken for those of other code."""

import json
import os
import sys
from pathlib import Path

import pytest

from bench import recorder
from bench.recorder import Record, circumstances, headers, typed_command
from bench.schema import problems
from tests.wrong_inputs import refused

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def output(tmp_path):
    return tmp_path / "results" / "record.json"


def read(path):
    return json.loads(path.read_text())


def edit(path, **changes):
    content = read(path)
    for header in headers(content):
        header |= changes
    path.write_text(json.dumps(content))


def test_a_record_has_results_behind_a_header_of_the_schema(output):
    Record(output, settings={"rows": (1, 2)}).write({"seconds": [0.5, 0.25]}, peer="1.0")
    content = read(output)
    assert list(content) == ["command", "circumstances", "settings", "seconds"]
    assert content["settings"] == {"rows": [1, 2]}
    assert content["circumstances"]["versions"]["peer"] == "1.0"
    assert content["circumstances"]["cores"] >= 1
    assert list(problems(content)) == []


def test_nothing_is_kept_without_a_file_and_all_else_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Record(None).write({"seconds": 1.0})["seconds"] == 1.0
    assert Record(None).keep({"seed": 0}, lambda: {"error": 2.0})["error"] == 2.0
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_exists_is_refused_and_stays(output):
    Record(output).write({"seconds": 1.0})
    before = output.read_bytes()
    refused(r"record\.json exists: another --output begins anew", Record, output, error=SystemExit)
    with pytest.raises(SystemExit, match=r"record\.json exists: --resume continues it, another"):
        Record(output, resume=False)
    assert output.read_bytes() == before


def test_a_series_goes_on_with_what_is_missing(output):
    made = []

    def run(seed):
        def make():
            made.append(seed)
            return {"error": seed / 2}

        return make

    for resume in (False, True):
        record = Record(output, settings={"split": 16}, resume=resume)
        for seed in range(1 + resume):
            record.keep({"seed": seed}, run(seed))
        record.write({"mean": 0.25})
    assert made == [0, 1]
    content = read(output)
    assert [run["error"] for run in content["runs"]] == [0.0, 0.5]
    assert (content["mean"], "command" in content) == (0.25, False)
    assert list(problems(content)) == []
    assert Record(output, settings={"split": 16}, resume=True).find({"seed": 2}) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"code": "0" * 16, "commit": "1" * 40}, "was made at commit 1{40}, .* --resume needs"),
        ({"code": None}, "was made at commit"),
        ({"processor": "Z80"}, "was made at processor Z80; --resume needs processor "),
        ({"instruction set": "mmx"}, "was made at instruction set mmx"),
        ({"versions": {"torch": "0.1"}}, "was made at versions {'torch': '0.1'}"),
    ],
)
def test_runs_of_other_code_or_another_machine_are_not_continued(output, changes, message):
    Record(output).keep({"seed": 0}, dict)
    edit(output, **changes)
    refused(message, Record, output, error=SystemExit, resume=True)


def test_a_series_of_other_settings_or_without_circumstances_is_not_continued(output):
    Record(output, settings={"split": 16}).keep({"seed": 0}, dict)
    with pytest.raises(SystemExit, match=r'has settings {"split": 16}, .* for {"split": 10}'):
        Record(output, settings={"split": 10}, resume=True)
    output.write_text(json.dumps({"runs": [{"seed": 0}]}))
    refused("--resume needs commit", Record, output, error=SystemExit, resume=True)


def test_a_file_is_written_at_once_or_not_at_all(output, monkeypatch):
    Record(output).write({"seconds": 1.0})
    before = output.read_bytes()

    def full(self, target):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    refused("no space", recorder.write_json, output, {"seconds": 2.0}, error=OSError)
    assert output.read_bytes() == before
    assert os.listdir(output.parent) == [output.name]


def test_settings_of_the_allocator_are_recorded_without_where_files_lie(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run.py", "--data", "/somewhere/mnist", "--rounds", "3"])
    assert typed_command().endswith("--data mnist --rounds 3")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    monkeypatch.setenv("EQUIGEO_RESULT_MEMORY", "0")
    monkeypatch.setenv("LD_PRELOAD", "/somewhere/libjemalloc.so.2")
    kept = circumstances()["allocator"]
    assert kept["MALLOC_ARENA_MAX"] == "1"
    assert kept["EQUIGEO_RESULT_MEMORY"] == "0"
    assert kept["LD_PRELOAD"] == "libjemalloc.so.2"


def test_the_digest_follows_code_and_nothing_else(tmp_path):
    (tmp_path / "equigeo").mkdir()
    (tmp_path / "equigeo" / "a.py").write_text("1")
    first = recorder.digest(tmp_path)
    (tmp_path / "equigeo" / "a.json").write_text("{}")
    (tmp_path / "b.py").write_text("1")
    assert recorder.digest(tmp_path) == first
    (tmp_path / "equigeo" / "a.py").write_text("2")
    assert recorder.digest(tmp_path) != first
