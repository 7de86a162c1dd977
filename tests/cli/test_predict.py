import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import trimesh

from equigeo.cli import main
from equigeo.mesh import PrimalDualSegmenter
from equigeo.tasks.mesh_classification import MeshConfig
from equigeo.tasks.mesh_classification.task import MESH_COPIES, _configure
from equigeo.tasks.mesh_segmentation import SegmentationConfig
from equigeo.testing import tolerance
from equigeo.training import Checkpoint


@pytest.fixture
def files(data):
    return [str(data / name / "test" / "T5.obj") for name in ("ball", "torus")]


def test_predictions_rank_the_classes_of_each_file_and_are_json_on_demand(
    checkpoint, files, capsys
):
    assert main(["predict", str(checkpoint), *files, "--top", "9"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for line, file in zip(out.splitlines(), files, strict=True):
        assert line.startswith(f"{file}: ")
        words = line.removeprefix(f"{file}: ").split()
        assert sorted(words[::2]) == ["ball", "capsule", "torus"]
        shares = [float(word.rstrip("%")) for word in words[1::2]]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(100, abs=3 * 0.05 + 0.01)  # rounded to 0.1 each
    assert main(["predict", str(checkpoint), files[0], "--top", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["file"] == files[0]
    near = tolerance(torch.float32, terms=3)["atol"]
    assert sum(share for _, share in found["ranking"]) == pytest.approx(1, abs=near)
    assert found["written"] == []


def test_predict_notes_repairs_on_standard_error(checkpoint, data, capsys, tmp_path):
    text = (data / "ball" / "test" / "T4.obj").read_text()
    (tmp_path / "twice.obj").write_text(f"{text}\nf 1 1 2\n")
    assert main(["predict", str(checkpoint), str(tmp_path / "twice.obj")]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert "repeated index" in err


def test_loading_options_are_those_of_the_training_unless_given(checkpoint, data, capsys, tmp_path):
    text = (data / "ball" / "test" / "T4.obj").read_text()
    first = sum(line.startswith("v ") for line in text.splitlines())
    debris = "".join(f"v {x} 3 3\n" for x in (3, 3.01, 3.02)) + "v 3 3.01 3\n"
    faces = f"f {first + 1} {first + 2} {first + 4}\n"
    (tmp_path / "debris.obj").write_text(f"{text}\n{debris}{faces}")
    command = ["predict", str(checkpoint), str(tmp_path / "debris.obj")]
    assert main(command) == 0
    assert "the mesh has 2 components" in capsys.readouterr().err
    assert main([*command, "--min-component", "0.001"]) == 0
    dropped = capsys.readouterr()
    assert "small component faces: 1" in dropped.err
    assert "dropped 1 components of less than 0.001 of the area" in dropped.err
    (tmp_path / "debris.obj").write_text(text)
    assert main(command) == 0
    assert capsys.readouterr().out == dropped.out
    run = tmp_path / "run"
    arguments = ["--data", str(data), "--output", str(run), "--epochs", "1", "--quiet"]
    assert main(["train", "mesh-classification", *arguments, "--min-component", "0.001"]) == 0
    assert json.loads((run / "config.json").read_text())["min_component"] == 0.001
    (tmp_path / "debris.obj").write_text(f"{text}\n{debris}{faces}")
    capsys.readouterr()
    assert main(["predict", str(run / "model.ckpt"), str(tmp_path / "debris.obj")]) == 0
    assert "small component faces: 1" in capsys.readouterr().err
    assert main([*command, "--merge", "0.2"]) == 2
    assert "merge must be between 0 and 0.1, got 0.2" in capsys.readouterr().err


_WITHOUT = """
import sys
sys.modules.update(lightning=None, plotly=None)
from equigeo.cli import main
status = main(sys.argv[1:])
sys.exit(str(slow) if (slow := {"torch._dynamo", "trimesh"} & sys.modules.keys()) else status)
"""


def test_prediction_imports_neither_optional_packages_nor_slow_ones(checkpoint, data):
    words = ["predict", checkpoint, data / "ball" / "test" / "T4.obj"]
    command = [sys.executable, "-c", _WITHOUT, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_view_is_a_page_in_a_folder_that_is_made_with_the_first_file(
    checkpoint, files, capsys, tmp_path, monkeypatch
):
    folder = tmp_path / "new" / "views"
    view = ["--view", "--output", str(folder)]
    assert main(["predict", str(checkpoint), str(tmp_path / "no.obj"), *view]) == 2
    assert main(["predict", str(checkpoint), files[0], *view, "--dry-run"]) == 0
    assert not folder.parent.exists()
    assert main(["predict", str(checkpoint), files[0], *view]) == 0
    assert capsys.readouterr().out.strip().endswith(f"-> {folder / 'T5.html'}")
    page = (folder / "T5.html").read_text()
    assert "T5.obj" in page
    assert 'id="shape-0"' in page
    assert "after pooling" in page
    assert list(folder.iterdir()) == [folder / "T5.html"]
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert main(["predict", str(checkpoint), files[0]]) == 0
    assert sorted(tmp_path.iterdir()) == before


def test_a_shape_unlike_any_of_the_training_is_remarked_on(checkpoint, capsys, tmp_path):
    # A flat patch is none of ball, capsule and torus, whatever the network answers
    trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 3], [0, 3, 2]]).export(
        tmp_path / "<b>.obj"
    )
    command = ["predict", str(checkpoint), str(tmp_path / "<b>.obj"), "--view"]
    assert main([*command, "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "(resembles nothing it was trained on: " in out
    assert "% of training samples lie)" in out
    page = (tmp_path / "<b>.html").read_text()
    assert '<p class="warning">&lt;b&gt;.obj resembles nothing it was trained on' in page


def test_a_training_shape_and_an_old_checkpoint_go_without_a_remark(checkpoint, data, capsys):
    file = str(data / "torus" / "train" / "T0.obj")
    assert main(["predict", str(checkpoint), file]) == 0
    content = torch.load(checkpoint, weights_only=True)
    del content["novelty"]
    torch.save(content, checkpoint)
    assert main(["predict", str(checkpoint), file]) == 0
    assert "resembles" not in capsys.readouterr().out


@pytest.mark.parametrize("table", ["all.csv", "all.jsonl"])
def test_names_that_are_not_utf8_lose_no_predictions(checkpoint, data, capfd, tmp_path, table):
    content = (data / "ball" / "test" / "T5.obj").read_bytes()
    strange = os.fsencode(tmp_path) + b"/d\xff.obj"
    Path(os.fsdecode(strange)).write_bytes(content)
    (tmp_path / "plain.obj").write_bytes(content)
    files = [os.fsdecode(strange), str(tmp_path / "plain.obj")]
    options = ["--results", str(tmp_path / table), "--view", "--output", str(tmp_path / "pages")]
    assert main(["predict", str(checkpoint), *files, *options]) == 0
    text = (tmp_path / table).read_text()
    assert "plain.obj" in text
    assert "udcff" in text
    assert len([*(tmp_path / "pages").iterdir()]) == 2


def test_names_and_outputs_that_cannot_be_used_are_refused(checkpoint, files, refused, tmp_path):
    for words in ((), ("model.ckpt",)):
        assert "the following arguments are required" in refused("predict", *words)
    predict, view = ("predict", checkpoint), ("--view", "--output")
    (tmp_path / "empty").mkdir()
    (tmp_path / "[1].obj").write_text("x")  # a name, though it could be a pattern
    (tmp_path / "taken").write_text("")
    before = sorted(tmp_path.rglob("*"))
    for words, part in (
        ((tmp_path / "*.off",), "no file has such a name"),
        ((tmp_path / "empty",), "has no file"),
        ((tmp_path / "[1].obj",), "[1].obj"),
        ((*files, *view, tmp_path), "2 of the files are called 'T5'"),
        ((files[0], *view, tmp_path / "taken"), "choose another folder"),
        ((files[0], *view, tmp_path / "taken" / "below"), "choose another folder"),
        ((*files, "--results", tmp_path / "found.txt"), ".csv or .jsonl"),
        ((*files, "--results", tmp_path / "no" / "found.csv"), "existing folder"),
    ):
        assert part in refused(*predict, *words)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_and_a_pattern_stand_for_their_files(checkpoint, data, capsys, tmp_path):
    for name, number in (("ball", 4), ("torus", 5)):
        copy = tmp_path / "scans" / name / f"{number}.OBJ"
        copy.parent.mkdir(parents=True)
        copy.write_bytes((data / name / "test" / f"T{number}.obj").read_bytes())
    (tmp_path / "scans" / "notes.txt").write_text("no mesh")
    assert main(["predict", str(checkpoint), str(tmp_path / "scans")]) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = [f"{tmp_path}/scans/ball/4.OBJ", f"{tmp_path}/scans/torus/5.OBJ"]
    assert [line.split(": ")[0] for line in lines] == expected
    assert main(["predict", str(checkpoint), f"{tmp_path}/scans/**/5.*"]) == 0
    assert capsys.readouterr().out.startswith(expected[1])


@pytest.fixture(scope="module")
def segmenter(tmp_path_factory):
    path = tmp_path_factory.mktemp("segmenter") / "model.ckpt"
    model = PrimalDualSegmenter.preset("default", 2, channels=(8, 16), keep=(0.7,))
    config = {"model": model.config.to_dict(), "classes": ["rest", "tip"], "version": "0"}
    config["train"] = SegmentationConfig("memory").to_dict()
    Checkpoint("mesh-segmentation", config, model.state_dict(), {}).save(path)
    return str(path)


def test_what_was_written_is_not_predicted_again(segmenter, data, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ball.obj").write_bytes((data / "ball" / "test" / "T5.obj").read_bytes())
    for given in (".", ".", "*"):
        assert main(["predict", segmenter, given]) == 0
        assert capsys.readouterr().out.startswith("ball.obj: ")
        assert {path.name for path in tmp_path.iterdir()} == {"ball.obj", "ball.parts.ply"}
    (tmp_path / "ball.obj").unlink()
    assert main(["predict", segmenter, "."]) == 2
    assert "no files but those that predict writes, .parts.ply" in capsys.readouterr().err
    assert main(["predict", segmenter, "ball.parts.ply"]) == 0  # it was named


def test_no_input_is_written_over(segmenter, data, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("x.obj", "x.parts.ply"):
        trimesh.load(data / "torus" / "test" / "T5.obj").export(tmp_path / name)
    before = (tmp_path / "x.parts.ply").read_bytes()
    (tmp_path / "link").symlink_to(tmp_path)
    for output in (".", "link"):
        assert main(["predict", segmenter, "x.obj", "x.parts.ply", "--output", output]) == 2
        assert "would be written over it; choose another --output" in capsys.readouterr().err
        assert (tmp_path / "x.parts.ply").read_bytes() == before
    assert main(["predict", segmenter, "x.obj", "x.parts.ply", "--output", "other"]) == 0


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


def test_evaluation_without_plotly_names_the_remedy(checkpoint, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert "needs plotly: pip install 'plotly>=5.20'" in refused("evaluate", checkpoint)


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


def test_results_go_to_a_table_of_what_could_be_used(checkpoint, files, tmp_path, capsys):
    table, lines = tmp_path / "found.csv", tmp_path / "found.jsonl"
    command = ["predict", str(checkpoint), *files, "--top", "3", "--results", str(table)]
    assert main(command) == 0
    assert capsys.readouterr() == ("", f"2 predictions in {table}\n")
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["file"], row["rank"]) for row in rows] == [
        (file, str(rank)) for file in files for rank in (1, 2, 3)
    ]
    assert sum(float(row["share"]) for row in rows) == pytest.approx(2)
    assert main([*command[:-1], str(lines), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [entry["file"] for entry in found] == files
    (tmp_path / "bad.obj").write_text("f 1 2 3\n")
    words = [files[0], str(tmp_path / "bad.obj"), "--results", str(table)]
    assert main(["predict", str(checkpoint), *words]) == 2
    assert "bad.obj" in capsys.readouterr().err
    assert table.read_text().count("\n") == 2
