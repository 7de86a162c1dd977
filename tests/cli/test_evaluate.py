"""``equigeo evaluate``, of a mesh classifier."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys

import pytest
import torch

from equigeo.cli import main
from equigeo.tasks.mesh_classification import MeshConfig
from equigeo.tasks.mesh_classification.cli import _configure
from equigeo.tasks.mesh_classification.random_copy import MESH_COPIES


def test_evaluate_prints_accuracy_by_class_and_on_copies(checkpoint, capsys, tmp_path):
    assert main(["evaluate", str(checkpoint), "--json", str(tmp_path / "r.json")]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    results = json.loads((tmp_path / "r.json").read_text())
    correct = sum(results["confusion"][i][i] for i in range(3))
    assert results["accuracy"] == correct / 6
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert lines["all    "[:3]].split()[1:3] == [str(correct), "6"]
    for name, row, i in zip(results["classes"], results["confusion"], range(3), strict=True):
        assert lines[name].split()[1:3] == [str(row[i]), "2"]
    strange = sum(novelty > 1 for novelty in results["novelties"])
    assert f"resemble nothing it was trained on: {strange} of 6 meshes" in out
    for copy in results["copies"]:
        assert copy["changed"] == []
        assert lines[copy["kind"]].split()[-2] == "0"
    assert [copy["kind"] for copy in results["copies"]] == list(MESH_COPIES)
    assert {p.name for p in checkpoint.parent.iterdir()} == {"model.ckpt", "report.html"}


def test_meshes_that_were_trained_on_are_counted_and_refused(checkpoint, data, capsys, tmp_path):
    evaluate = ["evaluate", str(checkpoint)]
    assert main(evaluate) == 0
    assert "trained on: 0 of 6 meshes" in capsys.readouterr().out
    moved = shutil.copytree(data, tmp_path / "moved")
    for name in ("ball", "torus"):
        (moved / name / "test" / "T5.obj").unlink()
        shutil.move(moved / name / "train" / "T0.obj", moved / name / "test" / "T0.obj")
    for options in (["--split", "5"], ["--data", str(moved)]):
        assert main([*evaluate, *options]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        number = int(re.search(r"(\d) of the \d meshes to evaluate were trained on", err)[1])
        assert number == 2 or "--split" in options
        assert "--allow-trained" in err
        assert (
            main([*evaluate, *options, "--allow-trained", "--json", str(tmp_path / "r.json")]) == 0
        )
        assert f"trained on: {number} of " in capsys.readouterr().out
        assert json.loads((tmp_path / "r.json").read_text())["trained_on"] == number
        report = "report.html" if "--split" in options else "report-moved.html"
        assert f"<td>{number} of " in checkpoint.with_name(report).read_text()
    content = torch.load(checkpoint, weights_only=True)
    del content["training"]["samples"]  # as of an earlier version
    torch.save(content, checkpoint)
    assert main([*evaluate, "--split", "5"]) == 0
    assert "trained on: unknown" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("mine", "10", 3, 2)),
        ({"data": "mine"}, ("mine", "10", 3, 2)),
        ({"data": "other"}, ("other", "10", 3, 0)),
        ({"split": "10"}, ("mine", "10", 3, 0)),
        ({"split": "16"}, ("mine", "16", 0, 0)),
        ({"split": "16", "split_index": 4}, ("mine", "16", 4, 0)),
        ({"split_index": 4}, ("mine", "10", 4, 2)),
    ],
)
def test_what_is_evaluated_is_that_of_the_run_but_for_what_was_asked(options, expected):
    config = MeshConfig("mine", split="10", split_index=3, holdout=2)
    given = dict.fromkeys(("data", "split", "split_index")) | options
    found = _configure(argparse.Namespace(**given), config)
    assert (found.data, found.split, found.split_index, found.holdout) == expected


def test_evaluate_follows_other_data_and_split(checkpoint, data, capsys):
    assert main(["evaluate", str(checkpoint), "--data", str(data), "--split", "folder"]) == 0
    assert "all" in capsys.readouterr().out


def test_evaluation_without_plotly_names_the_remedy(checkpoint, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert main(["evaluate", str(checkpoint)]) == 2
    assert "needs plotly: pip install 'plotly>=5.20'" in capsys.readouterr().err
