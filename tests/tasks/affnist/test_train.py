from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from equigeo.tasks.affnist import (
    AffNISTClassification,
    evaluate_image_classifier,
)
from equigeo.tasks.affnist.models import PlainCNN, PlainCNNConfig
from equigeo.training import time_limit
from tests.tasks import stand_in


def _assert_same(left, right):
    pairs = zip(left.model.state_dict().items(), right.model.state_dict().items(), strict=True)
    for (name, a), (other, b) in pairs:
        assert name == other
        assert torch.equal(a, b), name
    for first, second in zip(left.history, right.history, strict=True):
        assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_training_learns_and_reports_the_change_of_logits(config, tmp_path):
    config = replace(config, recipe=replace(config.recipe, epochs=30))
    trained = AffNISTClassification().train(config, tmp_path / "run")
    assert {p.name for p in (tmp_path / "run").iterdir()} == {
        "config.json", "history.json", "model.ckpt",
    }  # fmt: skip
    last = trained.history[-1]
    assert last["test_accuracy"] > 0.8  # chance is a half
    assert last["loss"] < trained.history[0]["loss"]
    assert 0 < last["logit_change"] < 1
    assert "logit_change" not in trained.history[0]
    assert trained.config == config
    assert json.loads((tmp_path / "run" / "history.json").read_text()) == trained.history
    evaluation = evaluate_image_classifier(trained, number=30)
    assert evaluation.accuracy == last["test_accuracy"]
    assert evaluation.logit_change == last["logit_change"]


def test_equal_seeds_give_equal_weights_and_the_seed_decides_the_model(config, tmp_path):
    runs = [
        AffNISTClassification().train(replace(config, seed=seed), tmp_path / str(i))
        for i, seed in enumerate((0, 0, 1))
    ]
    _assert_same(runs[0], runs[1])
    assert not torch.equal(runs[0].model.head.weight, runs[2].model.head.weight)


def test_the_plain_network_is_trained_and_read_back(config, tmp_path):
    config = replace(config, preset="cnn", recipe=replace(config.recipe, epochs=1))
    model = PlainCNN(PlainCNNConfig(10, widths=(4, 6), blocks=1))
    trained = AffNISTClassification().train(config, tmp_path, model=model)
    assert trained.model.config == model.config
    pixels = torch.arange(1600).reshape(1, 40, 40).to(torch.uint8)
    assert trained.logits(pixels).shape == (1, 10)
    assert trained.logits(pixels[:0]).shape == (0, 10)


_STOPPED = """
import os, signal, sys, json
from pathlib import Path
from tests.tasks import stand_in
stand_in.install()
from equigeo.tasks.affnist import AffNISTClassification
from equigeo.tasks.affnist import ImageConfig
from equigeo.training.loop import epoch_recorder
from equigeo.training.loop.lightning import L

epoch_recorder.SAVE_SECONDS = 0.0  # after every step

class Kill(L.Callback):
    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if (module.epoch, batch_idx) == (1, 3):
            os.kill(os.getpid(), signal.SIGKILL)

config = ImageConfig.from_dict(json.loads(sys.argv[1]))
AffNISTClassification().train(config, Path(sys.argv[2]), callbacks=[Kill()])
"""


def test_a_run_killed_in_mid_epoch_continues_at_its_last_checkpoint(config, tmp_path):
    config = replace(config, recipe=replace(config.recipe, ema_decay=0.9), evaluate_every=1)
    command = [sys.executable, "-c", _STOPPED, json.dumps(config.to_dict()), tmp_path / "killed"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    saved = torch.load(tmp_path / "killed" / "model.ckpt", weights_only=True)["training"]
    assert (saved["epochs"], saved["step"]) == (1, 3)
    assert saved["seconds"] > 0
    resumed = AffNISTClassification().train(config, tmp_path / "killed", resume=True)
    _assert_same(resumed, AffNISTClassification().train(config, tmp_path / "whole"))


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_any_number_of_sessions_ends_with_the_weights_of_one(config, tmp_path, ema_decay):
    config = replace(config, recipe=replace(config.recipe, ema_decay=ema_decay))
    whole = AffNISTClassification().train(config, tmp_path / "whole")
    sessions = 0
    while True:  # a limit that is over after the first step
        part = AffNISTClassification().train(
            config, tmp_path / "parts", resume=sessions > 0, callbacks=time_limit(1e-9)
        )
        sessions += 1
        if len(part.history) == 3:
            break
    assert sessions == 15  # 5 steps in each of 3 epochs
    _assert_same(part, whole)


def test_a_session_that_ends_in_the_first_epoch_leaves_a_usable_checkpoint(config, tmp_path):
    trained = AffNISTClassification().train(config, tmp_path, callbacks=time_limit(1e-9))
    assert trained.history == []
    assert 0 <= evaluate_image_classifier(trained, number=12).accuracy <= 1


def test_a_diverging_run_saves_nothing_within_its_epoch(config, tmp_path, monkeypatch):
    monkeypatch.setattr("equigeo.training.loop.epoch_recorder.SAVE_SECONDS", 0.0)
    model = stand_in.AffineResNet(10)
    with torch.no_grad():
        model.head.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"epoch 1 is nan: training diverged"):
        AffNISTClassification().train(config, tmp_path / "run", model=model)
    assert not (tmp_path / "run" / "model.ckpt").exists()
