"""Training states that no run has reached are refused before anything is written."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch

from equigeo.mesh import ClassifierConfig, PrimalDualClassifier
from equigeo.training import CheckpointError
from equigeo.training.loop.lightning import L
from equigeo.training.random_state import isolated_streams
from tests.tasks.mesh_run import train_meshes

NAN = float("nan")


class StopAfterTwo(L.Callback):
    def on_train_epoch_end(self, trainer, module):
        trainer.should_stop = trainer.current_epoch == 1


def _model():
    with isolated_streams():
        return PrimalDualClassifier(ClassifierConfig(3, channels=(4,), keep=(None,)))


@pytest.fixture(scope="module")
def averaged(config):
    return replace(config, recipe=replace(config.recipe, ema_decay=0.9))


@pytest.fixture(scope="module")
def two_epochs(averaged, dataset, tmp_path_factory):
    """A run that has done two epochs of three; tests must not write into it."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_meshes(averaged, dataset, folder, model=_model(), callbacks=[StopAfterTwo()])
    return folder


@pytest.fixture
def resume(averaged, dataset, two_epochs, tmp_path):
    """Resume a copy of the run after a change of its training state."""

    def resume(change=None):
        shutil.copytree(two_epochs, tmp_path / "run")
        path = tmp_path / "run" / "model.ckpt"
        content = torch.load(path, weights_only=True)
        if change is not None:
            change(content["training"])
        torch.save(content, path)
        return train_meshes(averaged, dataset, tmp_path / "run", model=_model(), resume=True)

    return resume


def _put(*path, value):
    def change(training):
        for key in path[:-1]:
            training = training[key]
        training[path[-1]] = value

    change.label = " ".join(map(str, path)) + f" {value!r:.20}"
    return change


def _drop(name):
    def change(training):
        del training[name]

    change.label = f"no {name}"
    return change


CHANGES = [
    *(_put("epochs", value=v) for v in (-1, 4, 1, 10**30, 1.5, "2", None, True)),
    *(_put("step", value=v) for v in (-1, 10**6, 0.5, "1")),
    *(_put("seconds", value=v) for v in (NAN, "long", None, 10**400)),
    *(_put("weights", value=v) for v in ({}, [], None)),
    _put("average", value=None),
    _put("average", "updates", value=-1),
    _put("average", "state", value={}),
    *(_put("optimizer", "param_groups", 0, "betas", value=v) for v in (None, 0.9, (NAN, 0.9))),
    *(_put("optimizer", "param_groups", 0, "lr", value=v) for v in (NAN, "fast", None)),
    _put("optimizer", "param_groups", 0, "fused", value="yes"),
    _put("optimizer", "param_groups", 0, "params", value=[0]),
    _put("optimizer", "param_groups", value=[]),
    _put("optimizer", "state", 0, "exp_avg", value=torch.zeros(1)),
    _put("optimizer", "state", 0, "exp_avg", value=None),
    _put("optimizer", "state", 10**9, value={}),
    _put("optimizer", value=None),
    *(_put("schedule", value=v) for v in (None, [], {}, {"step": 5, "last_epoch": 6})),
    _put("schedule", "total_steps", value=0),
    *(_put("schedule", "last_epoch", value=v) for v in ("late", 0, 10**6)),
    _put("schedule", "_schedule_phases", value=[]),
    _put("schedule", "base_lrs", value=[NAN]),
    _put("history", value=[]),
    *map(_drop, ("weights", "average", "optimizer", "schedule", "history")),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.label)
def test_a_state_that_no_run_has_reached_is_refused(resume, change, two_epochs, tmp_path):
    with pytest.raises(CheckpointError, match=r"--overwrite|train again") as caught:
        resume(change)
    assert len(str(caught.value).replace(str(tmp_path), "")) <= 400
    for name in ("config.json", "history.json"):
        assert (tmp_path / "run" / name).read_bytes() == (two_epochs / name).read_bytes()


def test_the_state_as_it_was_written_is_resumed(resume):
    assert resume().is_finished
