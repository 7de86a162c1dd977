"""``equigeo train --config``: the configuration of an earlier run, and options that change it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from equigeo.cli import main
from equigeo.tasks import MeshClassification
from equigeo.tasks.mesh_classification import MESH_RECIPES, MeshConfig
from equigeo.tasks.tsp import TourConfig

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


def test_run_is_repeated_from_its_configuration(run_folder, tmp_path, asked):
    file = run_folder / "config.json"
    assert main([*TRAIN, "--output", str(tmp_path / "run"), "--config", str(file)]) == 130
    assert asked == [MeshConfig.from_dict(json.loads(file.read_text()))]


def test_options_beside_the_file_win(data, tmp_path, asked):
    recipe = replace(MESH_RECIPES["paper"], epochs=50, jitter=0.25)
    config = MeshConfig("nowhere", recipe=recipe, preset="paper", seed=3)
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(config.to_dict()))
    options = f"--config {file} --data {data} --epochs 1 --seed 4 --preset paper".split()
    assert main([*TRAIN, "--output", str(tmp_path / "run"), *options]) == 130
    assert asked == [replace(config, data=str(data), seed=4, recipe=replace(recipe, epochs=1))]


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
def test_a_file_that_cannot_be_used_is_one_error(name, data, tmp_path, capsys):
    content, part = FILES[name]
    file = tmp_path / "mine.json"
    file.write_text("{" if content is None else json.dumps(content))
    arguments = ["--config", str(file), "--data", str(data), "--output", str(tmp_path / "run")]
    assert main([*TRAIN, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert str(file) in err
    assert part in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["none.json", "."])
def test_a_file_that_is_none_is_named(name, tmp_path, capsys):
    arguments = ["--config", str(tmp_path / name), "--output", str(tmp_path / "run")]
    assert main([*TRAIN, *arguments]) == 2
    assert str(tmp_path / name) in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_another_preset_or_a_resumed_run_has_its_own_recipe(run_folder, tmp_path, capsys):
    file = str(run_folder / "config.json")
    arguments = ["--config", file, "--output", str(tmp_path / "run")]
    assert main([*TRAIN, *arguments, "--preset", "paper"]) == 2
    assert "has the recipe of the preset default, asked paper" in capsys.readouterr().err
    assert main([*TRAIN, *arguments, "--resume"]) == 2
    assert "--resume and --config exclude each other" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
