"""``equigeo train pointcloud`` and the evaluation of its checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from equigeo.cli import main
from equigeo.mds import InvariantPointNet
from equigeo.tasks.measures.cloud_copies import CLOUD_COPIES
from equigeo.tasks.pointcloud import POINT_MODELS, POINT_PRESETS, PointConfig
from equigeo.tasks.pointcloud.trained import classify_cloud
from tests.make_data import DATA
from tests.tasks import stand_in

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


def test_presets_networks_and_sittings(tmp_path, capsys):
    data = str(stand_in.write_tiny_clouds(tmp_path / "clouds"))
    short = ("--epochs", "1", "--batch-size", "12", "--points", "16", "--data", data)
    for name, options, expected in (
        ("affine", ("--preset", "GLPlus"), ("affine", "GLPlus")),
        ("plain", ("--no-embedding", "--preset", "pointnet"), ("plain", "pointnet")),
    ):
        run = tmp_path / name
        assert main([*TRAIN, *short, *options, "--output", str(run)]) == 0
        config = PointConfig.from_dict(json.loads((run / "config.json").read_text()))
        assert (config.model, config.preset) == expected
        recipe = POINT_PRESETS[config.model][config.preset].recipe
        assert config.recipe == replace(recipe, epochs=1, batch_size=12)
        assert "next: equigeo evaluate" in capsys.readouterr().out
    checkpoint = str(tmp_path / "plain" / "model.ckpt")
    assert main(["evaluate", checkpoint]) == 0
    out = capsys.readouterr().out
    assert "accuracy upright" in out
    assert "equal predictions upright and rotated: " in out
    assert "flagged by the embedding" not in out  # it has none

    run = tmp_path / "sessions"
    assert (
        main([*TRAIN, *short, "--model", "mds", "--time-limit", "1e-9", "--output", str(run)]) == 0
    )
    assert "--resume" in capsys.readouterr().out
    assert main([*TRAIN, "--output", str(run), "--resume"]) == 0
    assert "trained 1 epochs" in capsys.readouterr().out


def test_evaluation_sums_up_what_counts(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(POINT_MODELS, "mds", InvariantPointNet)
    data = str(stand_in.write_tiny_clouds(tmp_path / "clouds"))
    short = ("--epochs", "2", "--batch-size", "6", "--points", "24", "--model", "mds")
    run = tmp_path / "run"
    assert main([*TRAIN, "--data", data, "--output", str(run), *short]) == 0
    capsys.readouterr()
    results = tmp_path / "r.json"
    assert main(["evaluate", str(run / "model.ckpt"), "--json", str(results)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    saved = json.loads(results.read_text())
    (rotated,) = (copy for copy in saved["copies"] if copy["kind"] == "rotated")
    assert f"accuracy upright {saved['accuracy']:.2%}, rotated {rotated['accuracy']:.2%}" in out
    assert "equal predictions upright and rotated: 100.00%" in out
    assert "flagged by the embedding at default thresholds: 0.00%" in out
    assert f"without flagged clouds: upright {saved['unflagged_accuracy']['upright']:.2%}" in out
    assert saved["flagged"] == []


def test_wrong_options_are_named(run, capsys, tmp_path):
    checkpoint = str(run / "model.ckpt")
    capsys.readouterr()
    for arguments, part in (
        (TRAIN, "--data is missing"),
        ((*TRAIN, "--data", tmp_path / "none", "--output", tmp_path / "o"), "no such file"),
        ((*TRAIN, "--data", tmp_path, "--model", "best"), "best"),
        ((*TRAIN, "--data", tmp_path, "--preset", "dgcnn"), "preset must be one of default, SO"),
        ((*TRAIN, "--data", tmp_path, "--model", "mds", "--preset", "SO"), "for the model 'mds'"),
        (("evaluate", checkpoint, "--split", "test"), "--split is for checkpoints of the task"),
        (("evaluate", checkpoint, "--images", "3"), "--images is for checkpoints"),
        (("evaluate", checkpoint, "--data", tmp_path / "none"), "no such file"),
    ):
        assert main([str(argument) for argument in arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert part in err
    assert not (tmp_path / "o").exists()


def test_clouds_of_ones_own_are_trained_on_evaluated_and_predicted(tmp_path, capsys):
    data, run = DATA / "clouds", tmp_path / "run"
    short = ("--epochs", "1", "--batch-size", "9", "--points", "100", "--model", "mds")
    assert main([*TRAIN, "--data", str(data), "--output", str(run), *short]) == 0
    checkpoint = str(run / "model.ckpt")
    assert main(["evaluate", checkpoint]) == 0
    out, err = capsys.readouterr()
    assert "glasses" in out
    assert main(["predict", checkpoint, str(data), "--top", "3", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [entry["file"] for entry in found] == sorted(map(str, data.glob("*/*/*.*")))
    for entry in found:
        assert {name for name, _ in entry["ranking"]} == {"bird", "glasses", "horse"}
    (tmp_path / "few.xyz").write_text("1 2 3\n4 5 6\n")
    files = [str(tmp_path / "few.xyz"), found[0]["file"]]
    assert main(["predict", checkpoint, *files]) == 2
    out, err = capsys.readouterr()
    assert err == f"equigeo: error: {files[0]}: has 2 points, the model takes 100\n"
    assert out.startswith(f"{files[1]}: ")
    assert main(["predict", checkpoint, files[1], "--view", "--output", str(tmp_path)]) == 2
    assert "no faces" in capsys.readouterr().err


@pytest.mark.parametrize("top", [0, -1])
def test_a_number_of_classes_is_positive(top):
    with pytest.raises(ValueError, match="top must be at least 1"):
        classify_cloud(None, None, top)
