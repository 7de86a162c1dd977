import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from equigeo.mesh import PrimalDualClassifier
from equigeo.tasks.mesh_classification import (
    MESH_RECIPES,
    MeshConfig,
    TrainedMeshClassifier,
    random_copy,
)
from tests.tasks.mesh_run import (
    StopAfterTwo,
    assert_same_state,
    config,
    dataset,
    small_model,
    train_meshes,
)

__all__ = ["config", "dataset", "small_model"]  # fixtures


def with_recipe(config, **recipe):
    return replace(config, recipe=replace(config.recipe, **recipe))


def state(trained):
    return trained.model.state_dict()


@pytest.fixture(scope="module")
def folder(config, dataset, small_model, tmp_path_factory):
    """Folder of a finished run; tests must not write into it."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_meshes(config, dataset, folder, model=small_model())
    return folder


@pytest.fixture
def copied(folder, tmp_path):
    """Copy the folder of the finished run."""
    return shutil.copytree(folder, tmp_path / "copy")


@pytest.fixture(scope="module")
def finished(folder):
    return TrainedMeshClassifier.load(folder / "model.ckpt")


def test_run_leaves_its_three_files_and_the_accuracy_of_the_saved_model(
    config, folder, finished, dataset
):
    assert {p.name for p in folder.iterdir()} == {"config.json", "history.json", "model.ckpt"}
    saved = json.loads((folder / "config.json").read_text())
    assert MeshConfig.from_dict(saved) == config == finished.config
    history = json.loads((folder / "history.json").read_text())
    assert history == finished.history
    assert [line["epoch"] for line in history] == [1, 2, 3]
    assert [line["test_accuracy"] is None for line in history] == [True, True, False]
    test = (~dataset.in_train).nonzero().flatten()
    logits = finished.logits([dataset.meshes[i] for i in test])
    right = (logits.argmax(dim=1) == dataset.labels[test]).double().mean().item()
    assert finished.history[-1]["test_accuracy"] == right


_KILLED = """
import json, os, signal, sys
from pathlib import Path
from tests.tasks.mesh_run import train_meshes
from equigeo.tasks.mesh_classification import MeshConfig
from equigeo.training.loop import callbacks
from equigeo.training.loop.lightning import L
from tests.tasks.tiny_data import tiny_dataset

callbacks.SAVE_SECONDS = 0.0  # after every step

class Kill(L.Callback):
    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if (module.epoch, batch_idx) == (1, 2):
            os.kill(os.getpid(), signal.SIGKILL)

config = MeshConfig.from_dict(json.loads(sys.argv[1]))
train_meshes(config, tiny_dataset(), Path(sys.argv[2]), callbacks=[Kill()])
"""


@pytest.mark.full
def test_run_killed_within_an_epoch_resumes_to_the_same_weights(config, dataset, tmp_path):
    config = replace(with_recipe(config, ema_decay=0.9), evaluate_every=1)
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", _KILLED, json.dumps(config.to_dict()), folder]
    assert subprocess.run(command, check=False).returncode == -9
    assert len(json.loads((folder / "history.json").read_text())) == 1
    saved = torch.load(folder / "model.ckpt", weights_only=True)["training"]
    assert (saved["epochs"], saved["step"]) == (1, 2)
    assert saved["seconds"] > 0
    resumed = train_meshes(config, dataset, folder, resume=True)
    whole = train_meshes(config, dataset, tmp_path / "whole")
    assert_same_state(state(resumed), state(whole))
    for name in ("epoch", "loss", "train_accuracy", "test_accuracy"):
        assert [a[name] for a in resumed.history] == [b[name] for b in whole.history]


@pytest.mark.parametrize("ema_decay", [0.0, pytest.param(0.5, marks=pytest.mark.full)])
def test_short_run_saves_what_it_has_learnt(dataset, tmp_path, ema_decay):
    # Eight epochs of one step leave running statistics near their initial values.
    recipe = replace(MESH_RECIPES["default"], epochs=8, batch_size=12, ema_decay=ema_decay)
    runs = {}
    for update in (False, True):
        config = MeshConfig("memory", recipe=replace(recipe, update_bn=update))
        torch.manual_seed(0)
        # features of one ring, which take these steps to tell the classes
        model = PrimalDualClassifier.preset("default", 3, features="invariant")
        runs[update] = train_meshes(config, dataset, tmp_path / str(update), model=model)
    lagging, updated = (runs[update].history[-1] for update in (False, True))
    assert lagging["train_accuracy"] == updated["train_accuracy"] > 0.9  # the same training
    assert lagging["test_accuracy"] <= 2 / 3  # negative control: chance is a third
    assert updated["test_accuracy"] > 0.8
    assert_same_state(*(dict(run.model.named_parameters()) for run in runs.values()))


def test_statistics_are_updated_in_the_evaluated_model_alone(
    config, dataset, small_model, tmp_path
):
    run = train_meshes(with_recipe(config, update_bn=True), dataset, tmp_path, model=small_model())
    # as many batches as a pass has
    assert int(run.model.head[0].num_batches_tracked) == 3
    # the weights to resume from have counted every step
    training = torch.load(tmp_path / "model.ckpt", weights_only=True)["training"]
    assert int(training["weights"]["head.0.num_batches_tracked"]) == 9


def test_stopped_run_tells_no_novelty_and_warns_of_another_number_of_threads(
    config, dataset, small_model, tmp_path, monkeypatch
):
    threads = torch.get_num_threads()
    stopped = train_meshes(
        config, dataset, tmp_path, model=small_model(), callbacks=[StopAfterTwo()]
    )
    assert stopped.novelty is None
    assert stopped.novelties(dataset.meshes) is None
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads + 1)
    with pytest.warns(UserWarning, match=rf"with \[{threads}\] threads .* {threads + 1}"):
        resumed = train_meshes(config, dataset, tmp_path, model=small_model(), resume=True)
    assert [line["threads"] for line in resumed.history] == [threads, threads, threads + 1]


def test_finished_run_tells_what_resembles_nothing(dataset, finished):
    familiar = finished.novelties([dataset.meshes[i] for i in dataset.in_train.nonzero().flatten()])
    assert max(familiar) < 1
    turned = random_copy(dataset.meshes[0], "all of these", torch.Generator().manual_seed(0))
    # Vectors are float32; the inverse of their covariance multiplies rounding by up to 1e3.
    assert finished.novelties([turned])[0] == pytest.approx(familiar[0], rel=1e-4)
    assert finished.novelties([]) == []


def test_augmentations_change_the_loss_and_other_resolutions_are_familiar(
    config, dataset, small_model, tmp_path, finished
):
    config = with_recipe(config, stretch=0.2, resolutions=(0.6,))
    trained = train_meshes(config, dataset, tmp_path, model=small_model())
    assert trained.history[0]["loss"] != finished.history[0]["loss"]
    assert trained.novelty.share == pytest.approx(24 / 25)  # twelve meshes at two resolutions


def test_resuming_before_the_first_checkpoint_starts_over(
    config, dataset, small_model, copied, finished
):
    (copied / "model.ckpt").unlink()
    (copied / "history.json").unlink()
    model, before = small_model(), torch.get_rng_state()
    begun = train_meshes(config, dataset, copied, model=model, resume=True)
    assert torch.equal(before, torch.get_rng_state())  # the global generator is left alone
    assert_same_state(state(finished), state(begun))
