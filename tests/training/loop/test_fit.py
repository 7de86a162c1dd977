import copy
import json
import os
from dataclasses import replace

import pytest
import torch

from equigeo.mesh import PrimalDualClassifier
from equigeo.tasks.mesh_classification import MeshClassification
from equigeo.training.loop.epoch_batches import EpochBatches
from equigeo.training.loop.lightning import L
from equigeo.training.loop.update_bn import update_bn
from tests.tasks.mesh_run import assert_same_state, train_meshes


class SaveWeights(L.Callback):
    """Write the parameters of every process."""

    def __init__(self, folder):
        self.folder = str(folder)

    def on_train_end(self, trainer, module):
        path = os.path.join(self.folder, f"{trainer.global_rank}.pt")
        torch.save(dict(module.model.named_parameters()), path)


def test_two_processes_end_with_equal_weights_and_statistics_of_whole_batches(
    config, dataset, small_model, tmp_path, capfd
):
    recipe = replace(config.recipe, epochs=2, batch_size=6, update_bn=True)
    config = replace(config, devices=2, recipe=recipe)
    trained = train_meshes(
        config, dataset, tmp_path / "run", model=small_model(), callbacks=[SaveWeights(tmp_path)]
    )
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    assert_same_state(first, second)
    assert_same_state(first, dict(trained.model.named_parameters()))
    initial = dict(small_model().named_parameters())
    assert any(not torch.equal(first[name], initial[name]) for name in first)
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    counted = [12 * line["train_accuracy"] for line in history]
    assert counted == pytest.approx([round(c) for c in counted])  # over the 12 meshes of both
    assert capfd.readouterr() == ("", "")
    plan = MeshClassification().plan(config, dataset, small_model())
    alone = copy.deepcopy(trained.model)
    batches = EpochBatches(plan.train, 6, seed=config.seed, epoch=2, noise=False)
    update_bn(alone, [batches[step] for step in range(len(batches))], plan.objective.sums)
    for name, value in alone.named_buffers():
        torch.testing.assert_close(trained.model.get_buffer(name), value, msg=name)
    assert int(trained.model.head[0].num_batches_tracked) == 2


def test_more_processes_than_meshes_are_refused(config, dataset, small_model, tmp_path):
    with pytest.raises(ValueError, match="two samples per step, got 4 samples for 3 processes"):
        train_meshes(replace(config, devices=3), dataset, tmp_path / "run", model=small_model())
    assert not (tmp_path / "run").exists()


def test_a_model_in_evaluation_mode_is_trained_as_one_in_training_mode(
    config, dataset, small_model, tmp_path
):
    model = small_model()
    frozen = small_model().eval()
    states = [
        train_meshes(config, dataset, tmp_path / name, model=given).model.state_dict()
        for name, given in (("training", model), ("evaluation", frozen))
    ]
    assert_same_state(*states)


@pytest.mark.full
def test_model_with_parameters_that_no_gradient_reaches_trains_in_two_processes(
    config, dataset, small_model, tmp_path
):
    different = replace(small_model().config, streams="dual")
    config = replace(config, devices=2, recipe=replace(config.recipe, epochs=2, batch_size=4))
    trained = train_meshes(config, dataset, tmp_path / "run", model=PrimalDualClassifier(different))
    assert len(trained.history) == 2


class StopAfterEveryStep(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        trainer.should_stop = True


@pytest.mark.full
def test_two_processes_may_stop_and_continue_within_an_epoch(
    config, dataset, small_model, tmp_path
):
    recipe = replace(config.recipe, epochs=1, batch_size=6, ema_decay=0.9, schedule="constant")
    config = replace(config, devices=2, recipe=recipe)
    whole = train_meshes(config, dataset, tmp_path / "whole", model=small_model())
    for resume in (False, True):
        part = train_meshes(
            config,
            dataset,
            tmp_path / "parts",
            model=small_model(),
            resume=resume,
            callbacks=[StopAfterEveryStep()],
        )
    assert_same_state(part.model.state_dict(), whole.model.state_dict())
    for name in ("loss", "train_accuracy"):
        assert part.history[0][name] == whole.history[0][name]
