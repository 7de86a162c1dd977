"""``equigeo train --dry-run``: everything is checked and built, and nothing is written."""

from __future__ import annotations

import pytest

from equigeo.cli import main
from equigeo.tasks.mesh_classification import TrainedMeshClassifier

TRAIN = ("train", "mesh-classification", "--dry-run")


def shown(capsys, *arguments):
    assert main([*TRAIN, *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return dict(line.split(maxsplit=1) for line in out.splitlines())


def test_samples_model_and_length_are_said_and_nothing_is_written(data, tmp_path, capsys):
    output = tmp_path / "new" / "run"
    lines = shown(capsys, "--data", data, "--output", output, "--epochs", "7", "--batch-size", "5")
    assert lines["run"].endswith("7 epochs")
    assert lines["samples"] == "12 of 3 classes, 3 steps an epoch"
    assert lines["done"] == "nothing, it is a new run"
    assert lines["output"] == str(output)
    assert "nothing" in lines
    assert list(tmp_path.iterdir()) == []


def test_parameters_are_those_of_the_model_that_is_trained(run_folder, data, tmp_path, capsys):
    model = TrainedMeshClassifier.load(run_folder / "model.ckpt").model
    parameters = sum(x.numel() for x in model.parameters())
    lines = shown(capsys, "--data", data, "--output", tmp_path / "run")
    assert lines["model"] == f"PrimalDualClassifier, {parameters:,} parameters"


def test_a_run_that_would_be_resumed_or_replaced_stays_as_it_is(run_folder, data, capsys):
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in run_folder.iterdir()}
    lines = shown(capsys, "--output", run_folder, "--resume")
    assert lines["done"] == "2 of 2 epochs"
    lines = shown(capsys, "--output", run_folder, "--data", data, "--overwrite")
    assert lines["done"] == "nothing, it is a new run"
    after = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in run_folder.iterdir()}
    assert after == before


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--data", "nowhere"), "nowhere"),
        (("--data", "DATA", "--split", "16"), "16"),
        (("--data", "DATA", "--lr", "nan"), "learning_rate"),
        (("--data", "DATA", "--devices", "100"), "processes"),
        (("--data", "DATA", "--output", "FILE"), "--output"),
    ],
)
def test_what_would_stop_a_run_stops_it(arguments, part, data, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    places = {"DATA": str(data), "FILE": str(tmp_path / "file")}
    arguments = [places.get(word, word) for word in arguments]
    default = [] if "--output" in arguments else ["--output", str(tmp_path / "run")]
    assert main([*TRAIN, *arguments, *default]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("equigeo: error: ")
    assert err.count("\n") == 1
    assert part in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_damaged_checkpoint_is_found(run_folder, tmp_path, capsys):
    for name in ("config.json", "model.ckpt"):
        (tmp_path / name).write_bytes((run_folder / name).read_bytes()[: 10**4])
    assert main([*TRAIN, "--output", str(tmp_path), "--resume"]) == 2
    assert "model.ckpt: truncated" in capsys.readouterr().err
