"""``equigeo train tsp`` and the evaluation of its checkpoints."""

from __future__ import annotations

import json

import pytest

from equigeo.cli import main
from equigeo.tasks.tsp import DECODINGS, TOUR_COPIES, TourConfig
from tests.datasets.tsplib_files import write_library

TRAIN = ("train", "tsp")
SMALL = ("--cities", "6", "--instances", "64", "--batch-size", "32", "--epochs", "2")


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path, capsys):
    folder = tmp_path / "run"
    assert main([*TRAIN, "--output", str(folder), *SMALL]) == 0
    return folder


def test_a_run_is_trained_evaluated_and_resumed(run, capsys):
    out, err = capsys.readouterr()
    assert "mean length of greedy tours" in out
    assert "64 random instances of 6 cities an epoch, mds model, 2 epochs" in err
    assert "length" in err.splitlines()[-1]
    config = TourConfig.from_dict(json.loads((run / "config.json").read_text()))
    assert (config.cities, config.instances, config.recipe.epochs) == (6, 64, 2)
    checkpoint, results = str(run / "model.ckpt"), run.parent / "r.json"
    data = str(write_library(run.parent / "library"))
    options = ["--instances", "20", "--seed", "1", "--data", data, "--json", str(results)]
    assert main(["evaluate", checkpoint, *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    saved = json.loads(results.read_text())
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    for name in DECODINGS:
        assert lines[name].endswith(f"{saved['gaps'][name]:.2%}")
    for kind in TOUR_COPIES:
        assert "100.00%" in lines[kind]
    assert lines["ring"].split()[1] == "52"
    assert len(saved["transfer"]) == 2
    assert main([*TRAIN, "--output", str(run), "--resume"]) == 0
    assert "trained 2 epochs" in capsys.readouterr().out


def test_the_plain_model_is_trained_too(run, capsys, tmp_path):
    folder = str(tmp_path / "plain")
    assert main([*TRAIN, "--output", folder, *SMALL, "--model", "plain", "--epochs", "1"]) == 0
    assert main(["evaluate", f"{folder}/model.ckpt", "--instances", "20"]) == 0
    out, _ = capsys.readouterr()
    assert "TSPLIB" not in out


def test_wrong_options_are_named(run, capsys, tmp_path):
    checkpoint = str(run / "model.ckpt")
    capsys.readouterr()
    for arguments, part in (
        ((*TRAIN, "--cities", "2", "--output", tmp_path / "o"), "cities must be at least 3"),
        ((*TRAIN, "--model", "best"), "best"),
        ((*TRAIN, "--output", run), "already holds a training run"),
        ((*TRAIN, "--output", run, "--resume", "--cities", "7"), "cities is 6, asked 7"),
        (("evaluate", checkpoint, "--split", "test"), "--split is for checkpoints of the task"),
        (("evaluate", checkpoint, "--data", tmp_path / "none"), "no such file or folder"),
        (("evaluate", checkpoint, "--instances", "0"), "positive integer"),
    ):
        assert main([str(argument) for argument in arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert part in err
    assert not (tmp_path / "o").exists()
