from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import equigeo
from equigeo.cli import main
from equigeo.tasks.mesh_classification import MESH_RECIPES, MeshConfig, TrainedMeshClassifier
from equigeo.tasks.mesh_classification.random_copy import MESH_COPIES


def test_training_writes_the_configuration_it_was_given(run_folder, data):
    saved = json.loads((run_folder / "config.json").read_text())
    config = MeshConfig.from_dict(saved)
    assert (config.data, config.split, config.recipe.epochs) == (str(data), "folder", 2)
    assert config.recipe.learning_rate == MESH_RECIPES["default"].learning_rate


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
    for copy in results["copies"]:
        assert copy["changed"] == []
        assert lines[copy["kind"]].split()[-2] == "0"
    assert [copy["kind"] for copy in results["copies"]] == list(MESH_COPIES)
    assert {p.name for p in checkpoint.parent.iterdir()} == {"model.ckpt", "report.html"}


def test_evaluate_follows_other_data_and_split(checkpoint, data, capsys):
    assert main(["evaluate", str(checkpoint), "--data", str(data), "--split", "folder"]) == 0
    assert "all" in capsys.readouterr().out


def test_predict_ranks_the_classes_of_each_file(checkpoint, data, capsys):
    files = [str(data / name / "test" / "T5.obj") for name in ("ball", "torus")]
    assert main(["predict", str(checkpoint), *files, "--top", "9"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for line, file in zip(out.splitlines(), files, strict=True):
        assert line.startswith(f"{file}: ")
        words = line.removeprefix(f"{file}: ").split()
        assert sorted(words[::2]) == ["ball", "capsule", "torus"]
        shares = [float(word.rstrip("%")) for word in words[1::2]]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(100, abs=0.2)


def test_predict_notes_repairs_on_standard_error(checkpoint, data, capsys, tmp_path):
    text = (data / "ball" / "test" / "T4.obj").read_text()
    (tmp_path / "twice.obj").write_text(f"{text}\nf 1 1 2\n")
    assert main(["predict", str(checkpoint), str(tmp_path / "twice.obj")]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert "repeated index" in err


def test_resume_takes_the_configuration_of_the_run(run_folder, capsys):
    before = (run_folder / "model.ckpt").read_bytes()
    assert main(["train", "mesh-classification", "--output", str(run_folder), "--resume"]) == 0
    assert (run_folder / "model.ckpt").read_bytes() == before
    assert "trained 2 epochs" in capsys.readouterr().out


def test_given_options_change_the_preset_alone_where_given(data, tmp_path, capsys):
    arguments = ["--data", str(data), "--output", str(tmp_path / "run"), "--epochs", "1"]
    options = ["--lr", "0.001", "--jitter", "0", "--seed", "3", "--holdout", "1", "--threads", "1"]
    assert main(["train", "mesh-classification", *arguments, *options]) == 0
    recipe = TrainedMeshClassifier.load(tmp_path / "run" / "model.ckpt").config.recipe
    assert (recipe.learning_rate, recipe.jitter, recipe.epochs) == (0.001, 0.0, 1)
    assert recipe.weight_decay == MESH_RECIPES["default"].weight_decay
    assert "held-out accuracy" in capsys.readouterr().out


def test_info_names_versions_and_cache(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert equigeo.__version__ in out
    assert "cache" in out


def test_the_module_runs_as_a_program():
    command = [sys.executable, "-m", "equigeo.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"equigeo {equigeo.__version__}\n"


def test_an_interruption_exits_with_130_and_a_hint(data, tmp_path, capsys, monkeypatch):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("equigeo.tasks.task.train_model", interrupt)
    arguments = ["--data", str(data), "--output", str(tmp_path / "run")]
    assert main(["train", "mesh-classification", *arguments]) == 130
    assert f"--output {tmp_path / 'run'} --resume" in capsys.readouterr().err


_INTERRUPTED = """
import os, signal, sys
from equigeo.cli import main
from equigeo.training.loop.optimization import Optimization

def interrupt(self, outputs, batch, step):
    if (self.epoch, step) == (1, 0):
        os.kill(os.getpid(), signal.SIGINT)

Optimization.on_train_batch_end = interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore it
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_during_training_keeps_the_last_epoch(data, tmp_path):
    arguments = ["train", "mesh-classification", "--data", str(data), "--epochs", "3"]
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, *arguments, "--output", tmp_path / "run"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert "--resume" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(TrainedMeshClassifier.load(tmp_path / "run" / "model.ckpt").history) == 1


_WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from equigeo.cli import main
sys.exit(main(sys.argv[2:]))
"""


def _without(package, *arguments):
    command = [sys.executable, "-c", _WITHOUT, package, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_without_lightning_training_names_the_remedy(data, tmp_path):
    arguments = ("--data", data, "--output", tmp_path / "run")
    done = _without("lightning", "train", "mesh-classification", *arguments)
    assert done.returncode == 2
    assert 'pip install "equigeo[train]"' in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_without_plotly_evaluation_names_the_remedy(checkpoint):
    done = _without("plotly", "evaluate", checkpoint)
    assert done.returncode == 2
    assert 'pip install "equigeo[train]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_without_lightning_and_plotly_a_file_is_classified(checkpoint, data):
    for package in ("lightning", "plotly"):
        done = _without(package, "predict", checkpoint, data / "ball" / "test" / "T4.obj")
        assert done.returncode == 0, done.stderr


def test_a_terminal_of_no_size_shows_a_bar_with_live_accuracy(data, tmp_path):
    pty = pytest.importorskip("pty")
    master, terminal = pty.openpty()
    arguments = ["--data", data, "--output", tmp_path / "run", "--epochs", "2"]
    command = [sys.executable, "-m", "equigeo.cli", "train", "mesh-classification", *arguments]
    subprocess.run(command, stderr=terminal, stdout=subprocess.DEVNULL, check=True)
    os.close(terminal)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert "epoch 2/2" in shown
    assert "accuracy" in shown
