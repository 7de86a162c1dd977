"""``equigeo train pointcloud`` and the evaluation of its checkpoints."""

from __future__ import annotations

import json

import pytest

from equigeo.cli import main
from equigeo.training import POINT_MODELS, PointConfig
from equigeo.training.cloud_copies import CLOUD_COPIES
from tests.training import stand_in

TRAIN = ("train", "pointcloud")


@pytest.fixture(autouse=True)
def _model(monkeypatch):
    monkeypatch.setitem(POINT_MODELS, "mds", stand_in.PointNet)


@pytest.fixture
def run(tmp_path, capsys):
    data = stand_in.write_tiny_clouds(tmp_path / "clouds")
    options = ("--epochs", "2", "--batch-size", "6", "--points", "24", "--model", "mds")
    folder = tmp_path / "run"
    assert main([*TRAIN, "--data", str(data), "--output", str(folder), *options]) == 0
    return folder


def test_a_run_is_trained_evaluated_and_resumed(run, capsys):
    out, err = capsys.readouterr()
    assert "rotated accuracy" in out
    assert "equivariance error" in out
    assert "24 points each, mds model, default preset, 2 epochs" in err
    config = PointConfig.from_dict(json.loads((run / "config.json").read_text()))
    assert (config.points, config.model, config.recipe.epochs) == (24, "mds", 2)
    checkpoint, results = str(run / "model.ckpt"), run.parent / "r.json"
    assert main(["evaluate", checkpoint, "--seed", "1", "--json", str(results)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    saved = json.loads(results.read_text())
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    for kind in CLOUD_COPIES:
        assert lines[kind].endswith(f"{saved['logit_changes'][kind]:.1e}")
    assert lines["all"].split()[2] == "12"
    assert main([*TRAIN, "--output", str(run), "--resume"]) == 0
    assert "trained 2 epochs" in capsys.readouterr().out


def test_wrong_options_are_named(run, capsys, tmp_path):
    checkpoint = str(run / "model.ckpt")
    capsys.readouterr()
    for arguments, part in (
        (TRAIN, "--data is missing"),
        ((*TRAIN, "--data", tmp_path / "none", "--output", tmp_path / "o"), "no such file"),
        ((*TRAIN, "--data", tmp_path, "--model", "best"), "best"),
        (("evaluate", checkpoint, "--split", "test"), "--split is for checkpoints of the task"),
        (("evaluate", checkpoint, "--images", "3"), "--images is for checkpoints"),
        (("evaluate", checkpoint, "--data", tmp_path / "none"), "no such file"),
    ):
        assert main([str(argument) for argument in arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert part in err
    assert not (tmp_path / "o").exists()
