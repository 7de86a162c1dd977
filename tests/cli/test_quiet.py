"""``--quiet``: results on standard output, and nothing on standard error but what is wrong."""

from __future__ import annotations

import pytest

from equigeo.cli import main
from equigeo.training import Checkpoint

TRAIN = ("train", "mesh-classification")


@pytest.fixture
def unfinished(checkpoint):
    """A run that has done one of its two epochs."""
    content = Checkpoint.load(checkpoint)
    content.training["history"] = content.training["history"][:1]
    content.save(checkpoint)
    return checkpoint


def run(capsys, *arguments):
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr()


def test_training_shows_its_results_alone(data, tmp_path, capsys):
    arguments = (*TRAIN, "--data", data, "--epochs", "1")
    loud = run(capsys, *arguments, "--output", tmp_path / "loud")
    assert "epoch 1/1" in loud.err
    quiet = run(capsys, *arguments, "--output", tmp_path / "quiet", "--quiet")
    assert quiet.err == ""
    assert quiet.out.startswith("trained 1 epochs")


@pytest.mark.full
def test_evaluation_makes_no_remark_on_an_unfinished_run(unfinished, capsys):
    assert "note: this run has finished 1 of 2 epochs" in run(capsys, "evaluate", unfinished).err
    quiet = run(capsys, "evaluate", unfinished, "--quiet")
    assert quiet.err == ""
    assert "accuracy" in quiet.out


def test_prediction_makes_no_remark_on_repairs(checkpoint, tmp_path, capsys):
    file = tmp_path / "open.obj"
    file.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 2 3 5\n")
    assert run(capsys, "predict", checkpoint, file).err != ""
    quiet = run(capsys, "predict", checkpoint, file, "--quiet")
    assert quiet.err == ""
    assert "open.obj: " in quiet.out


def test_errors_are_still_said(checkpoint, tmp_path, capsys):
    assert main(["predict", str(checkpoint), str(tmp_path / "no.obj"), "--quiet"]) == 2
    assert "no.obj" in capsys.readouterr().err
