from __future__ import annotations

import json
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
from equigeo.training import CheckpointError, OutputFolderError
from equigeo.training.loop.lightning import L
from tests.tasks.mesh_run import train_meshes


def _weights(trained):
    return trained.model.state_dict()


def _assert_same(left, right):
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert torch.equal(value, right[name]), name


def _with(config, **recipe):
    return replace(config, recipe=replace(config.recipe, **recipe))


def test_training_soon_beats_chance(config, dataset, small_model, tmp_path):
    config = _with(config, epochs=8)
    trained = train_meshes(config, dataset, tmp_path / "run", model=small_model())
    assert trained.history[-1]["test_accuracy"] > 0.6  # chance is 1/3
    assert trained.history[-1]["loss"] < trained.history[0]["loss"]


def test_a_run_leaves_its_three_files_and_nothing_else(config, dataset, small_model, tmp_path):
    trained = train_meshes(config, dataset, tmp_path / "run", model=small_model())
    files = {p.name for p in (tmp_path / "run").iterdir()}
    assert files == {"config.json", "history.json", "model.ckpt"}
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert MeshConfig.from_dict(saved) == config == trained.config
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    assert history == trained.history
    assert [line["epoch"] for line in history] == [1, 2, 3]
    assert [line["test_accuracy"] is None for line in history] == [True, True, False]


def test_reported_test_accuracy_is_that_of_the_saved_model(config, dataset, small_model, tmp_path):
    trained = train_meshes(config, dataset, tmp_path, model=small_model())
    test = (~dataset.in_train).nonzero().flatten()
    logits = TrainedMeshClassifier.load(tmp_path / "model.ckpt").logits(
        [dataset.meshes[i] for i in test]
    )
    right = (logits.argmax(dim=1) == dataset.labels[test]).double().mean().item()
    assert trained.history[-1]["test_accuracy"] == right


def test_equal_seeds_give_equal_weights(config, dataset, small_model, tmp_path):
    with torch.random.fork_rng():
        first = train_meshes(config, dataset, tmp_path / "a", model=small_model())
        torch.rand(7)  # the global generator must not matter
        second = train_meshes(config, dataset, tmp_path / "b", model=small_model())
    _assert_same(_weights(first), _weights(second))
    other = train_meshes(replace(config, seed=1), dataset, tmp_path / "c", model=small_model())
    assert not torch.equal(_weights(first)["head.2.weight"], _weights(other)["head.2.weight"])


def test_the_seed_decides_the_initial_weights_of_a_preset(config, dataset, tmp_path):
    config = _with(config, epochs=1, learning_rate=1e-12, batch_size=12)
    runs = [
        _weights(train_meshes(replace(config, seed=s), dataset, tmp_path / str(i)))
        for i, s in enumerate((0, 0, 1))
    ]
    _assert_same(runs[0], runs[1])
    assert not torch.allclose(runs[0]["head.2.weight"], runs[2]["head.2.weight"])


def test_global_generator_is_left_alone(config, dataset, small_model, tmp_path):
    train_meshes(config, dataset, tmp_path / "a", model=small_model())
    model, before = small_model(), torch.get_rng_state()
    train_meshes(config, dataset, tmp_path / "b", model=model)
    assert torch.equal(before, torch.get_rng_state())


_KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from tests.tasks.mesh_run import train_meshes
from equigeo.tasks.mesh_classification import MeshConfig
from equigeo.training.loop.lightning import L
from equigeo.mesh import PrimalDualClassifier, ClassifierConfig
from tests.tasks.tiny_data import tiny_dataset
import json

class Kill(L.Callback):
    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if (module.epoch, batch_idx) == (2, 1):
            os.kill(os.getpid(), signal.SIGKILL)

config = MeshConfig.from_dict(json.loads(sys.argv[1]))
train_meshes(config, tiny_dataset(), Path(sys.argv[2]), callbacks=[Kill()])
"""


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_a_run_killed_in_mid_epoch_resumes_to_the_same_weights(
    config, dataset, tmp_path, ema_decay
):
    config = replace(_with(config, epochs=4, ema_decay=ema_decay), evaluate_every=1)
    folder = tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, json.dumps(config.to_dict()), folder], check=False
    )
    assert done.returncode == -9
    history = json.loads((folder / "history.json").read_text())
    assert [line["epoch"] for line in history] == [1, 2]  # killed in the third

    resumed = train_meshes(config, dataset, folder, resume=True)
    whole = train_meshes(config, dataset, tmp_path / "whole")
    _assert_same(_weights(resumed), _weights(whole))
    for name in ("epoch", "loss", "train_accuracy", "test_accuracy"):
        assert [a[name] for a in resumed.history] == [b[name] for b in whole.history]


@pytest.mark.parametrize(("ema_decay", "most"), [(0.0, 2 / 3), (0.5, 2 / 3)])
def test_a_short_run_saves_what_it_has_learnt(dataset, tmp_path, ema_decay, most):
    """Eight epochs of one step leave running statistics near their initial values."""
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
    assert lagging["test_accuracy"] <= most  # negative control: chance is a third
    assert updated["test_accuracy"] > 0.8
    parameters = (dict(run.model.named_parameters()) for run in runs.values())
    _assert_same(*parameters)


def test_statistics_are_updated_where_a_model_is_evaluated(config, dataset, small_model, tmp_path):
    config = replace(_with(config, update_bn=True), evaluate_every=2)
    whole = train_meshes(config, dataset, tmp_path / "whole", model=small_model())
    for resume in (False, True):
        part = train_meshes(
            config, dataset, tmp_path / "parts", model=small_model(), resume=resume,
            callbacks=[] if resume else [StopAfterTwo()],
        )  # fmt: skip
        # as many batches as a pass has, in an evaluated model as in the last one
        assert int(part.model.head[0].num_batches_tracked) == 3
    _assert_same(_weights(part), _weights(whole))
    # the weights to resume from have counted every step
    training = torch.load(tmp_path / "whole" / "model.ckpt", weights_only=True)["training"]
    assert int(training["weights"]["head.0.num_batches_tracked"]) == 9


class StopAfterTwo(L.Callback):
    def on_train_epoch_end(self, trainer, module):
        trainer.should_stop = trainer.current_epoch == 1


def test_threads_are_recorded_and_resuming_with_another_number_warns(
    config, dataset, small_model, tmp_path
):
    folder, threads = tmp_path / "run", torch.get_num_threads()
    train_meshes(config, dataset, folder, model=small_model(), callbacks=[StopAfterTwo()])
    try:
        torch.set_num_threads(threads + 1)
        with pytest.warns(UserWarning, match=rf"with \[{threads}\] threads .* {threads + 1}"):
            resumed = train_meshes(config, dataset, folder, model=small_model(), resume=True)
    finally:
        torch.set_num_threads(threads)
    assert [line["threads"] for line in resumed.history] == [threads, threads, threads + 1]


def test_augmentations_are_repeated_by_a_resumed_run(config, dataset, small_model, tmp_path):
    plain = train_meshes(config, dataset, tmp_path / "plain", model=small_model())
    config = _with(config, stretch=0.2, resolutions=(0.6, 1.5))
    whole = train_meshes(config, dataset, tmp_path / "whole", model=small_model())
    for resume in (False, True):
        part = train_meshes(
            config, dataset, tmp_path / "parts", model=small_model(), resume=resume,
            callbacks=[] if resume else [StopAfterTwo()],
        )  # fmt: skip
    _assert_same(_weights(part), _weights(whole))
    assert whole.history[0]["loss"] != plain.history[0]["loss"]


def test_a_finished_run_tells_what_resembles_nothing(config, dataset, small_model, tmp_path):
    """In the last checkpoint alone, and resumed to the bit."""
    whole = train_meshes(config, dataset, tmp_path / "whole", model=small_model())
    stopped = train_meshes(
        config, dataset, tmp_path / "parts", model=small_model(), callbacks=[StopAfterTwo()]
    )
    assert stopped.novelty is None
    assert stopped.novelties(dataset.meshes) is None
    part = train_meshes(config, dataset, tmp_path / "parts", model=small_model(), resume=True)
    _assert_same(part.novelty.state_dict(), whole.novelty.state_dict())
    familiar = whole.novelties([dataset.meshes[i] for i in dataset.in_train.nonzero().flatten()])
    assert max(familiar) < 1
    turned = random_copy(dataset.meshes[0], "all of these", torch.Generator().manual_seed(0))
    # Vectors are float32; the inverse of their covariance multiplies rounding by up to 1e3.
    assert whole.novelties([turned])[0] == pytest.approx(familiar[0], rel=1e-4)
    assert whole.novelties([]) == []


def test_versions_at_other_resolutions_are_familiar(config, dataset, small_model, tmp_path):
    config = _with(config, resolutions=(0.6,))
    trained = train_meshes(config, dataset, tmp_path, model=small_model())
    samples = trained.novelty
    assert samples.share == pytest.approx(24 / 25)  # twelve meshes at two resolutions


def test_resuming_a_finished_run_changes_nothing(config, dataset, small_model, tmp_path):
    train_meshes(config, dataset, tmp_path, model=small_model())
    before = (tmp_path / "model.ckpt").read_bytes()
    train_meshes(config, dataset, tmp_path, model=small_model(), resume=True)
    assert (tmp_path / "model.ckpt").read_bytes() == before


def test_resuming_before_the_first_checkpoint_starts_over(config, dataset, small_model, tmp_path):
    whole = train_meshes(config, dataset, tmp_path / "a", model=small_model())
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").write_bytes((tmp_path / "a" / "config.json").read_bytes())
    begun = train_meshes(config, dataset, tmp_path / "b", model=small_model(), resume=True)
    _assert_same(_weights(whole), _weights(begun))


def test_a_used_folder_asks_what_to_do(config, dataset, small_model, tmp_path):
    train_meshes(config, dataset, tmp_path, model=small_model())
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(OutputFolderError, match=r"--resume.*--overwrite.*--output"):
        train_meshes(config, dataset, tmp_path, model=small_model())
    other = replace(config, seed=1)
    with pytest.raises(OutputFolderError, match="seed is 0, asked 1"):
        train_meshes(other, dataset, tmp_path, model=small_model(), resume=True)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    trained = train_meshes(other, dataset, tmp_path, model=small_model(), overwrite=True)
    assert trained.config == other


def test_resuming_another_model_is_refused(config, dataset, small_model, tmp_path):
    train_meshes(config, dataset, tmp_path, model=small_model())
    with pytest.raises(CheckpointError, match="another 'model' configuration"):
        train_meshes(config, dataset, tmp_path, resume=True)


def test_an_unusable_folder_is_refused_before_training(config, dataset, small_model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputFolderError, match="not a folder"):
        train_meshes(config, dataset, tmp_path / "file" / "run", model=small_model())


def test_data_that_do_not_fit_leave_no_folder(config, dataset, small_model, tmp_path):
    with pytest.raises(ValueError, match="16"):
        train_meshes(replace(config, split="16"), dataset, tmp_path / "run", model=small_model())
    assert not (tmp_path / "run").exists()


def test_a_diverging_run_stops_with_one_message_and_no_broken_file(
    config, dataset, small_model, tmp_path
):
    wild = replace(config, recipe=replace(config.recipe, learning_rate=999.0, epochs=40))
    model = small_model()
    with torch.no_grad():
        next(iter(model.parameters())).fill_(torch.nan)
    with pytest.raises(ValueError, match=r"diverged.*lower the learning rate"):
        train_meshes(wild, dataset, tmp_path / "run", model=model)
    assert not (tmp_path / "run" / "model.ckpt").exists()
