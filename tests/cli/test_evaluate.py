"""``equigeo evaluate``, of a mesh classifier."""

from __future__ import annotations

import json
import sys

from equigeo.cli import main
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


def test_evaluate_follows_other_data_and_split(checkpoint, data, capsys):
    assert main(["evaluate", str(checkpoint), "--data", str(data), "--split", "folder"]) == 0
    assert "all" in capsys.readouterr().out


def test_evaluation_without_plotly_names_the_remedy(checkpoint, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert main(["evaluate", str(checkpoint)]) == 2
    assert "needs plotly: pip install 'plotly>=5.20'" in capsys.readouterr().err
