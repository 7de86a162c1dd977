"""``equigeo predict --config``, ``--dry-run`` and ``--results``."""

from __future__ import annotations

import csv
import json

import pytest

from equigeo.cli import main


@pytest.fixture
def files(data):
    return [str(data / name / "test" / "T5.obj") for name in ("ball", "torus")]


def config(tmp_path, content):
    file = tmp_path / "mine.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(file)


def test_a_file_gives_what_was_not_typed(checkpoint, files, tmp_path, capsys):
    given = {"checkpoint": str(checkpoint), "files": files, "top": 2, "json": True}
    assert main(["predict", "--config", config(tmp_path, given)]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [entry["file"] for entry in found] == files
    assert [len(entry["ranking"]) for entry in found] == [2, 2]


def test_what_is_typed_beside_the_file_wins(checkpoint, files, tmp_path, capsys):
    given = {"checkpoint": "nowhere.ckpt", "files": files, "top": 2, "json": True}
    arguments = ["--config", config(tmp_path, given), "--top", "1", str(checkpoint), files[0]]
    assert main(["predict", *arguments]) == 0
    (found,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found["file"] == files[0]
    assert len(found["ranking"]) == 1


@pytest.mark.parametrize("name", ["view", "json", "quiet", "verbose"])
def test_what_the_file_switches_on_can_be_switched_off(checkpoint, files, tmp_path, capsys, name):
    given = {"checkpoint": str(checkpoint), "files": files[:1], name: True}
    command = ["predict", "--config", config(tmp_path, given), "--dry-run", "--json"]
    expected = {"json": False} | ({} if name == "json" else {name: True})
    assert main(command) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {key: shown[key] for key in expected} == expected
    command.remove("--json")
    assert main([*command, f"--no-{name}", *([] if name == "json" else ["--json"])]) == 0
    out = capsys.readouterr().out
    assert out.startswith("model ") if name == "json" else json.loads(out)[name] is False


def test_a_dry_run_names_the_files_and_writes_what_a_config_takes(
    checkpoint, data, files, tmp_path, capsys
):
    command = ["predict", str(checkpoint), str(data / "ball" / "test"), "--dry-run", "--top", "2"]
    before = sorted(checkpoint.parent.iterdir())
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert f"file     {files[0]}" in out
    assert "mesh-classification" in out
    assert "leave out --dry-run" in out
    assert main([*command, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert files[0] in shown["files"]
    assert main(["predict", "--config", config(tmp_path, shown)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(shown["files"])
    assert sorted(checkpoint.parent.iterdir()) == before


def test_positional_arguments_may_stand_behind_options(checkpoint, files, capsys):
    for words in (
        ["--top", "2", str(checkpoint), *files],
        [str(checkpoint), "--top", "2", *files],
        [str(checkpoint), files[0], "--top", "2", files[1]],
    ):
        assert main(["predict", *words]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2


BAD = {
    "a list": ([1], "must be a JSON object"),
    "no JSON": ("{", "not a file of options"),
    "nested too deep": ("[" * 10**5, "not a file of options"),
    "too large": (" " * (1 << 20) + "{}", "bytes"),
    "unknown": ({"colour": 1}, "unknown options ['colour']"),
    "top of zero": ({"top": 0}, "expected a positive integer"),
    "top that is true": ({"top": True}, "expected a positive integer"),
    "files that are a text": ({"files": "a.obj"}, "expected a list of texts"),
    "files of numbers": ({"files": [1]}, "expected a list of texts"),
    "view of a text": ({"view": "yes"}, "expected true or false"),
    "another device": ({"device": "tpu"}, "one of auto, cpu, cuda"),
    "no checkpoint": ({"files": ["a.obj"]}, "CHECKPOINT is missing"),
    "no files": ({"checkpoint": "model.ckpt"}, "FILE is missing"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_used_is_one_error(name, tmp_path, capsys):
    content, part = BAD[name]
    assert main(["predict", "--config", config(tmp_path, content)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert part in err
    assert "mine.json" in err or "missing" in err


@pytest.mark.parametrize("name", ["none.json", "."])
def test_a_file_that_is_none_is_named(name, tmp_path, capsys):
    assert main(["predict", "--config", str(tmp_path / name)]) == 2
    assert str(tmp_path / name) in capsys.readouterr().err


def test_results_go_to_a_table(checkpoint, files, tmp_path, capsys):
    table = tmp_path / "found.csv"
    command = ["predict", str(checkpoint), *files, "--top", "3", "--results", str(table)]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"2 predictions in {table}\n"
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["file"], row["rank"]) for row in rows] == [
        (file, str(rank)) for file in files for rank in (1, 2, 3)
    ]
    assert sum(float(row["share"]) for row in rows) == pytest.approx(2)
    lines = tmp_path / "found.jsonl"
    assert main([*command[:-1], str(lines), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [entry["file"] for entry in found] == files


def test_results_hold_what_could_be_used(checkpoint, files, tmp_path, capsys):
    (tmp_path / "bad.obj").write_text("f 1 2 3\n")
    table = tmp_path / "found.csv"
    words = [files[0], str(tmp_path / "bad.obj"), "--results", str(table)]
    assert main(["predict", str(checkpoint), *words]) == 2
    assert "bad.obj" in capsys.readouterr().err
    assert table.read_text().count("\n") == 2


@pytest.mark.parametrize(
    ("name", "part"), [("found.txt", ".csv or .jsonl"), ("no/found.csv", "existing folder")]
)
def test_results_that_cannot_be_written_are_refused_early(
    name, part, checkpoint, files, tmp_path, capsys
):
    command = ["predict", str(checkpoint), *files, "--results", str(tmp_path / name)]
    assert main(command) == 2
    assert part in capsys.readouterr().err
    assert not (tmp_path / name).exists()
