import csv
import json
from dataclasses import replace

import pytest

from equigeo.cli import main
from equigeo.tasks import MeshClassification
from equigeo.tasks.mesh_classification import MESH_RECIPES, MeshConfig
from equigeo.tasks.tsp import TourConfig


@pytest.fixture
def files(data):
    return [str(data / name / "test" / "T5.obj") for name in ("ball", "torus")]


def test_a_dry_run_names_the_files_and_writes_nothing(checkpoint, data, files, capsys):
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
    assert shown["checkpoint"] == str(checkpoint)
    assert files[0] in shown["files"]
    assert sorted(checkpoint.parent.iterdir()) == before


def test_positional_arguments_may_stand_behind_options(checkpoint, files, capsys):
    for words in (
        ["--top", "2", str(checkpoint), *files],
        [str(checkpoint), "--top", "2", *files],
        [str(checkpoint), files[0], "--top", "2", files[1]],
    ):
        assert main(["predict", *words]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_checkpoint_and_a_file_are_needed(refused):
    for words in ((), ("model.ckpt",)):
        assert "the following arguments are required" in refused("predict", *words)


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


def test_results_that_cannot_be_written_are_refused_early(checkpoint, files, tmp_path, refused):
    command = ("predict", checkpoint, *files, "--results")
    for name, part in (("found.txt", ".csv or .jsonl"), ("no/found.csv", "existing folder")):
        assert part in refused(*command, tmp_path / name)
        assert not (tmp_path / name).exists()


TRAIN = ("train", "mesh-classification")


@pytest.fixture
def asked(monkeypatch):
    """The configurations that runs are asked for, in place of training."""
    found = []

    def note(task, config, output, **options):
        found.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr(MeshClassification, "train", note)
    return found


def test_run_is_repeated_from_its_configuration_and_options(run_folder, tmp_path, asked, data):
    file = run_folder / "config.json"
    assert main([*TRAIN, "--output", str(tmp_path / "run"), "--config", str(file)]) == 130
    assert asked == [MeshConfig.from_dict(json.loads(file.read_text()))]
    recipe = replace(MESH_RECIPES["paper"], epochs=50, jitter=0.25)
    config = MeshConfig("nowhere", recipe=recipe, preset="paper", seed=3)
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(config.to_dict()))
    options = f"--config {file} --data {data} --epochs 1 --seed 4 --preset paper".split()
    assert main([*TRAIN, "--output", str(tmp_path / "run"), *options]) == 130
    assert asked[1:] == [replace(config, data=str(data), seed=4, recipe=replace(recipe, epochs=1))]


GOOD = MeshConfig("builtin").to_dict()
FILES = {
    "unknown key": (GOOD | {"colour": 1}, "unknown fields ['colour']"),
    "unknown key of the recipe": (
        GOOD | {"recipe": GOOD["recipe"] | {"speed": 1}},
        "unknown fields ['speed']",
    ),
    "missing key": ({"data": "builtin"}, "missing fields"),
    "value out of range": (GOOD | {"seed": -1}, "seed"),
    "of another task": (TourConfig().to_dict(), "not a configuration of mesh-classification"),
    "a list": ([1], "must be a JSON object"),
    "no JSON": (None, "not a configuration"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_that_cannot_be_used_is_one_error(name, data, tmp_path, refused):
    content, part = FILES[name]
    file = tmp_path / "mine.json"
    file.write_text("{" if content is None else json.dumps(content))
    arguments = ("--config", file, "--data", data, "--output", tmp_path / "run")
    message = refused(*TRAIN, *arguments)
    assert message.count("\n") == 1
    assert str(file) in message
    assert part in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["none.json", "."])
def test_a_file_that_is_none_is_named(name, tmp_path, refused):
    file, output = tmp_path / name, ("--output", tmp_path / "run")
    assert str(file) in refused(*TRAIN, *output, "--config", file)
    assert not (tmp_path / "run").exists()


def test_another_preset_or_a_resumed_run_has_its_own_recipe(run_folder, tmp_path, refused):
    arguments = ("--config", run_folder / "config.json", "--output", tmp_path / "run")
    message = refused(*TRAIN, *arguments, "--preset", "paper")
    assert "has the recipe of the preset default, asked paper" in message
    message = refused(*TRAIN, *arguments, "--resume")
    assert "--resume and --config exclude each other" in message
    assert not (tmp_path / "run").exists()
