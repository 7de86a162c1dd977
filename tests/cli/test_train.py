"""``equigeo train``, on meshes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from equigeo.cli import main
from equigeo.tasks.mesh_classification import MESH_RECIPES, MeshConfig, TrainedMeshClassifier
from tests.cli.without_package import without


def test_training_writes_the_configuration_it_was_given(run_folder, data):
    saved = json.loads((run_folder / "config.json").read_text())
    config = MeshConfig.from_dict(saved)
    assert (config.data, config.split, config.recipe.epochs) == (str(data), "folder", 2)
    assert config.recipe.learning_rate == MESH_RECIPES["default"].learning_rate


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
from tests.cli.without_package import without
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


def test_without_lightning_training_names_the_remedy(data, tmp_path):
    arguments = ("--data", data, "--output", tmp_path / "run")
    done = without("lightning", "train", "mesh-classification", *arguments)
    assert done.returncode == 2
    assert 'pip install "equigeo[train]"' in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


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
