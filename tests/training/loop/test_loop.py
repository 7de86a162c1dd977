import copy
import json
import os
import pickle
from dataclasses import replace
from inspect import signature
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.optim import swa_utils

from equigeo.mesh import PrimalDualClassifier, PrimalDualGraph
from equigeo.tasks.mesh_classification import MeshClassification, MeshConfig
from equigeo.tasks.mesh_classification.run import PADDING, LabelledMeshes
from equigeo.tasks.mesh_segmentation import SegmentationConfig
from equigeo.tasks.mesh_segmentation.task import FaceCrossEntropy
from equigeo.testing import tolerance
from equigeo.training import log_history, time_limit
from equigeo.training.data import DividedBatch, EpochBatches, LabelledBatch
from equigeo.training.loop import session as module
from equigeo.training.loop.fit import SAVE_SECONDS, EpochRecorder
from equigeo.training.loop.module import (
    L,
    Optimization,
    WeightAverage,
    sums_of_parts,
    tracking_norms,
    update_bn,
)
from equigeo.training.objective import CrossEntropy, FitPlan
from equigeo.training.process import count_gpus, training_on
from tests.tasks.tiny_data import assert_same_state, small_classifier, tiny_dataset, train_meshes
from tests.wrong_inputs import refused


def test_the_device_that_is_asked_for_is_taken_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device, message in (
        ("cuda", "no GPU, got 'cuda'"),
        ("tpu", "one of auto, cpu, cuda, got 'tpu'"),
    ):
        with pytest.raises(ValueError, match=message), training_on(device):
            pass
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert count_gpus() == 2
    with training_on("cpu"):
        assert count_gpus() == 0
        with training_on("cuda"):
            assert count_gpus() == 2
        assert count_gpus() == 0
    with pytest.raises(RuntimeError, match="x"), training_on("cpu"):
        raise RuntimeError("x")
    assert count_gpus() == 2


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf")])
def test_a_time_limit_that_is_no_time_is_refused(minutes):
    refused("positive number of minutes", time_limit, minutes)


def test_average_follows_its_recurrence_and_copies_integers():
    norm, average = nn.BatchNorm1d(1), WeightAverage(0.5)
    expected = None
    for t in range(1, 20):
        with torch.no_grad():
            norm.weight.fill_(float(t))
            norm.num_batches_tracked.fill_(t)
        average.update(norm)
        decay = min(0.5, (1 + t) / (10 + t))
        expected = float(t) if expected is None else decay * expected + (1 - decay) * t
    torch.testing.assert_close(average.state["weight"], torch.tensor([expected]))
    assert average.state["num_batches_tracked"] == 19


def test_parts_of_a_batch_have_loss_measure_and_gradients_of_the_whole_and_are_not_kept():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    model.unused = nn.Parameter(torch.ones(2))
    x = torch.randn(7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    whole = LabelledBatch(x, labels, 7)
    parts = [LabelledBatch(x[s], labels[s], 7) for s in (slice(3), slice(3, 5), slice(5, 7))]
    divided, objective, found = DividedBatch(tuple(parts)), CrossEntropy(0.1), []
    for batch in (whole, divided):
        model.zero_grad()
        loss, measure = sums_of_parts(objective, model, batch)
        kept = [tensor.shape for tensor in getattr(loss.grad_fn, "saved_tensors", ())]
        (3 * loss / batch.total).backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        assert model.unused.grad is None
        found.append([loss.detach(), measure, *grads])
    assert len(found[0]) == 6
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, **tolerance(torch.float64, terms=100))
    # of the divided batch, gradients alone
    assert kept == [p.shape for name, p in model.named_parameters() if name != "unused"]
    assert len(divided.labels) == len(whole.labels) == divided.total
    assert divided.to(torch.device("cpu")).parts[1].total == 7


NONE = [-1, -1]
LOGITS = [[9.0, 0.0], [0.0, 9.0]]  # of the two faces of every mesh


class Slope(nn.Module):
    """Logits times one weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, logits):
        return self.weight * logits


def batch_of(*rows):
    faces = sum(label != PADDING for row in rows for label in row)
    assert faces == 2 * len(rows)
    return LabelledBatch(torch.tensor(LOGITS * len(rows)), torch.tensor(rows), len(rows))


def step(batch):
    """Loss and slope of a step, and mean loss and measure of the epoch."""
    config, source = SegmentationConfig("memory"), _source(1)
    plan = FitPlan(config, Slope(), (), source, FaceCrossEntropy(), lambda model: {})
    module = Optimization(plan)
    module._trainer = SimpleNamespace(world_size=1, current_epoch=0, global_rank=0)
    loss = module.training_step(batch, 0)
    loss.backward()
    return [loss.item(), module.model.weight.grad.item(), *module.tally()]


def test_meshes_without_a_labelled_face_are_in_no_mean():
    alone = step(batch_of([0, 1]))
    assert alone[3] == 1.0
    assert step(batch_of([0, 1], NONE)) == alone
    divided = DividedBatch(
        tuple(LabelledBatch(b.inputs, b.labels, 3) for b in map(batch_of, ([0, 1], NONE, NONE)))
    )
    assert step(divided) == alone
    assert step(batch_of([0, 1], [0, 0]))[3] == pytest.approx(0.75)
    assert step(batch_of(NONE, NONE)) == [0.0] * 4


class _Recorder(LabelledMeshes):
    """Labels are positions, and no graph is built."""

    def split(self, indices):
        return [list(indices)]

    def batch(self, indices, total=None, generator=None):
        return LabelledBatch(None, self.labels[torch.tensor(indices)], total)


def _source(number):
    return _Recorder([None] * number, torch.arange(number))


def _labels(batches):
    return [batches[step].labels.tolist() for step in range(len(batches))]


@given(number=st.integers(8, 70), size=st.integers(8, 32), processes=st.integers(1, 2))
def test_processes_see_every_mesh_once_in_even_batches(number, size, processes):
    shares = [
        EpochBatches(_source(number), size, seed=0, epoch=1, process=p, num_processes=processes)
        for p in range(processes)
    ]
    seen = sorted(i for share in shares for step in _labels(share) for i in step)
    assert seen == list(range(number))
    totals = [shares[0][step].total for step in range(len(shares[0]))]
    assert max(totals) <= size
    assert max(totals) - min(totals) <= 1


def test_order_depends_on_seed_and_epoch_alone_and_two_meshes_make_a_step():
    def order(seed, epoch):
        return _labels(EpochBatches(_source(20), 8, seed=seed, epoch=epoch))

    assert order(0, 3) == order(0, 3)
    assert order(0, 3) != order(0, 4)
    assert order(0, 3) != order(1, 3)
    with pytest.raises(ValueError, match="at least two samples per step, got 3 samples for 2"):
        EpochBatches(_source(3), 8, seed=0, epoch=0, num_processes=2)


@given(first=st.integers(0, 3))
def test_an_epoch_continues_at_any_step(first):
    whole = EpochBatches(_source(20), 6, seed=0, epoch=3)
    rest = EpochBatches(_source(20), 6, seed=0, epoch=3, first_step=first)
    assert len(rest) == len(whole) - first
    assert _labels(rest) == _labels(whole)[first:]


def test_several_processes_ask_every_twentieth_step_whether_to_save():
    plan = SimpleNamespace(config=MeshConfig("memory"), evaluate=None, novelty=None)
    recorder, asked = EpochRecorder(None, plan), []
    strategy = SimpleNamespace(broadcast=lambda value: asked.append(value) or value)
    for processes, questions, due in ((1, 0, 100), (2, 5, 5)):
        trainer = SimpleNamespace(world_size=processes, strategy=strategy)
        found = [recorder._is_due(trainer, step, SAVE_SECONDS) for step in range(100)]
        assert (len(asked), sum(found)) == (questions, due)
        assert not any(recorder._is_due(trainer, step, 0.0) for step in range(1, 20))


def test_jitter_is_repeatable_and_graphs_travel_to_processes_by_value():
    data = tiny_dataset(train=2, test=0)
    graphs = LabelledMeshes([PrimalDualGraph.from_mesh(m) for m in data.meshes], data.labels)

    def features(epoch, jitter=0.1):
        noisy = replace(graphs, jitter=jitter)
        return EpochBatches(noisy, 6, seed=0, epoch=epoch)[0].inputs.x_dual.sum(dim=0)

    assert torch.equal(features(0), features(0))
    assert not torch.allclose(features(0), features(1))
    assert torch.allclose(features(0, 0.0), features(1, 0.0), rtol=1e-4)  # order alone differs
    copy = pickle.loads(pickle.dumps(replace(graphs, jitter=0.5)))
    assert torch.equal(copy.labels, graphs.labels)
    assert copy.jitter == 0.5
    assert torch.equal(copy.batch([3, 1]).inputs.x_dual, graphs.batch([3, 1]).inputs.x_dual)


class SaveWeights(L.Callback):
    """Write the parameters of every process."""

    def __init__(self, folder):
        self.folder = str(folder)

    def on_train_end(self, trainer, module):
        path = os.path.join(self.folder, f"{trainer.global_rank}.pt")
        torch.save(dict(module.model.named_parameters()), path)


def test_two_processes_end_with_equal_weights_and_statistics_of_whole_batches(
    config, dataset, tmp_path, capfd
):
    recipe = replace(config.recipe, epochs=2, batch_size=6, update_bn=True)
    config = replace(config, devices=2, recipe=recipe)
    trained = train_meshes(config, tmp_path / "run", callbacks=[SaveWeights(tmp_path)])
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    assert_same_state(first, second)
    assert_same_state(first, dict(trained.model.named_parameters()))
    initial = dict(small_classifier().named_parameters())
    assert any(not torch.equal(first[name], initial[name]) for name in first)
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    counted = [12 * line["train_accuracy"] for line in history]
    assert counted == pytest.approx([round(c) for c in counted])  # over the 12 meshes of both
    assert capfd.readouterr() == ("", "")
    plan = MeshClassification().plan(config, dataset, small_classifier())
    alone = copy.deepcopy(trained.model)
    batches = EpochBatches(plan.train, 6, seed=config.seed, epoch=2, noise=False)
    update_bn(alone, [batches[step] for step in range(len(batches))], plan.objective.sums)
    for name, value in alone.named_buffers():
        torch.testing.assert_close(trained.model.get_buffer(name), value, msg=name)
    assert int(trained.model.head[0].num_batches_tracked) == 2


def test_nodes_divide_batches_and_have_a_trainer_each(config, tmp_path, monkeypatch):
    made, build = [], L.Trainer

    def keep(**options):
        made.append(build(**options))
        raise InterruptedError

    monkeypatch.setattr(L, "Trainer", keep)
    for name, value in {"NODE_RANK": "1", "MASTER_ADDR": "first", "SLURM_NTASKS": "2"}.items():
        monkeypatch.setenv(name, value)
    config = replace(config, devices=2, nodes=2, recipe=replace(config.recipe, batch_size=12))
    with pytest.raises(InterruptedError):
        train_meshes(config, tmp_path / "run")
    (trainer,) = made
    assert (trainer.num_nodes, trainer.num_devices, trainer.world_size) == (2, 2, 4)
    assert (trainer.node_rank, trainer.strategy.cluster_environment.main_address) == (1, "first")
    assert not trainer.strategy.cluster_environment.creates_processes_externally
    with pytest.raises(ValueError, match="two samples per step, got 6 samples for 4 processes"):
        train_meshes(replace(config, recipe=replace(config.recipe, batch_size=6)), tmp_path / "b")
    earlier = {name: value for name, value in config.to_dict().items() if name != "nodes"}
    assert type(config).from_dict(earlier) == replace(config, nodes=1)


def test_more_processes_than_meshes_are_refused(config, tmp_path):
    with pytest.raises(ValueError, match="two samples per step, got 4 samples for 3 processes"):
        train_meshes(replace(config, devices=3), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_model_in_evaluation_mode_is_trained_as_one_in_training_mode(config, tmp_path):
    model = small_classifier()
    frozen = small_classifier().eval()
    states = [
        train_meshes(config, tmp_path / name, model=given).model.state_dict()
        for name, given in (("training", model), ("evaluation", frozen))
    ]
    assert_same_state(*states)


@pytest.mark.full
def test_model_with_parameters_that_no_gradient_reaches_trains_in_two_processes(config, tmp_path):
    different = replace(small_classifier().config, streams="dual")
    config = replace(config, devices=2, recipe=replace(config.recipe, epochs=2, batch_size=4))
    trained = train_meshes(config, tmp_path / "run", model=PrimalDualClassifier(different))
    assert len(trained.history) == 2


class StopAfterEveryStep(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        trainer.should_stop = True


@pytest.mark.full
def test_two_processes_may_stop_and_continue_within_an_epoch(config, tmp_path):
    recipe = replace(config.recipe, epochs=1, batch_size=6, ema_decay=0.9, schedule="constant")
    config = replace(config, devices=2, recipe=recipe)
    whole = train_meshes(config, tmp_path / "whole")
    for resume in (False, True):
        part = train_meshes(
            config, tmp_path / "parts", resume=resume, callbacks=[StopAfterEveryStep()]
        )
    assert_same_state(part.model.state_dict(), whole.model.state_dict())
    for name in ("loss", "train_accuracy"):
        assert part.history[0][name] == whole.history[0][name]


def _normed():
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.BatchNorm1d(8))


def _run(model, batch):
    return model(batch)


def _drawn(number=7):
    return 2 + 3 * torch.randn(number, 16, 3)


def _statistics(model):
    return {n: b.clone() for n, b in model.named_buffers()}


def test_statistics_are_those_of_the_population_as_of_torch_without_dropout():
    model, other, batches = _normed(), _normed(), _drawn()
    other.load_state_dict(model.state_dict())
    model(batches[0])  # earlier statistics do not count
    update_bn(model, batches, _run)
    swa_utils.update_bn(batches, other)
    for name, value in _statistics(model).items():
        assert torch.equal(value, _statistics(other)[name]), name
    norm, plain = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    update_bn(nn.Sequential(nn.Dropout(0.9), norm), batches, _run)
    update_bn(plain, batches, _run)
    assert torch.equal(norm.running_var, plain.running_var)


@pytest.mark.parametrize("training", [True, False])
def test_modes_momenta_weights_and_gradients_are_left_alone(training):
    model = _normed().train(training)
    model[3].eval()
    before = {n: p.clone() for n, p in model.named_parameters()}
    update_bn(model, _drawn(), _run)
    assert [m.training for m in model] == [training] * 3 + [False]
    assert [model[1].momentum, model[3].momentum] == [0.1, 0.1]
    assert all(torch.equal(p, before[n]) and p.grad is None for n, p in model.named_parameters())


def test_failing_and_missing_batches_leave_modes_momenta_and_statistics():
    model = _normed()
    with pytest.raises(RuntimeError):
        update_bn(model, [torch.zeros(4, 5)], _run)
    assert model.training
    assert model[1].momentum == 0.1
    model(_drawn()[0])
    before = _statistics(model)
    update_bn(model, [], _run)
    for name, value in _statistics(model).items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("freeze", [nn.Module.eval, lambda norm: norm.requires_grad_(False)])
def test_frozen_layers_keep_their_statistics(freeze):
    model = _normed()
    freeze(model[1])
    model[1].running_mean.fill_(5)
    before = _statistics(model)
    update_bn(model, _drawn(), _run)
    kept = {n: torch.equal(b, before[n]) for n, b in _statistics(model).items()}
    assert kept == {n: n.startswith("1.") for n in before}
    freeze(model[3])
    untracked = nn.Sequential(nn.LayerNorm(3), nn.BatchNorm1d(3, track_running_stats=False))
    for without in (model, untracked):
        assert not tracking_norms(without)
        update_bn(without, iter(lambda: pytest.fail("was run"), None), _run)


loggers = pytest.importorskip("lightning.pytorch").loggers


class Noted(loggers.Logger):
    """Keep what is said."""

    name, version = "noted", 0

    def __init__(self):
        super().__init__()
        self.said = []

    def log_metrics(self, metrics, step=None):
        self.said.append((step, metrics))

    def log_hyperparams(self, params):
        self.said.append(("configuration", params))

    def save(self):
        self.said.append("save")

    def finalize(self, status):
        self.said.append(status)


def test_configuration_then_epochs_then_the_end_are_said(config, tmp_path):
    noted = Noted()
    callbacks = log_history(noted, tmp_path / "run")
    trained = train_meshes(config, tmp_path / "run", callbacks=callbacks)
    configuration, *lines, end = noted.said
    assert configuration == ("configuration", config.to_dict())
    assert end == "success"
    assert lines[1::2] == ["save"] * 3
    for (step, measured), line in zip(lines[::2], trained.history, strict=True):
        assert step == line["epoch"]
        rest = {"epoch", "threads"} | {name for name, value in line.items() if value is None}
        assert measured == {name: value for name, value in line.items() if name not in rest}


def test_loggers_that_are_none_or_missing_are_named(tmp_path, monkeypatch):
    refused(r"csv or .* or mlflow, or one of Lightning", log_history, "paper", tmp_path)
    refused("one of Lightning, got int", log_history, 3, tmp_path)
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    for name in ("tensorboard", "wandb", "mlflow"):
        message = f"the logger {name} needs {name}: pip install {name}"
        refused(message, log_history, name, tmp_path, error=ImportError)


class Service(loggers.Logger):
    """Stand in for the logger of a service that is not installed, and note how it is made."""

    name, version = "service", 0
    made: ClassVar[list[dict[str, object]]] = []

    def __init__(self, **options):
        super().__init__()
        self.made.append(options)

    def log_metrics(self, metrics, step=None): ...

    def log_hyperparams(self, params): ...


SERVICES = ("WandbLogger", "MLFlowLogger")


def test_services_are_told_the_name_of_the_run(config, tmp_path, monkeypatch):
    made, run = Service.made, tmp_path / "mine"
    monkeypatch.setattr(module, "find_spec", lambda name: name)
    taken = {name: signature(getattr(loggers, name)).parameters for name in SERVICES}
    for name in SERVICES:
        monkeypatch.setattr(loggers, name, Service)
    for name in ("WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    log_history("wandb", run)
    log_history("mlflow", run)
    monkeypatch.setenv("WANDB_PROJECT", "theirs")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    log_history("wandb", run)
    callbacks = log_history("mlflow", run)
    local = {"tracking_uri": None, "save_dir": str(run / "mlruns"), "run_name": "mine"}
    assert made == [
        {"name": "mine", "project": "equigeo", "save_dir": run},
        {"experiment_name": "equigeo", **local},
        {"name": "mine", "project": "theirs", "save_dir": run},
        {"experiment_name": "theirs", **local, "tracking_uri": "http://127.0.0.1:9"},
    ]
    for options, name in zip(made, SERVICES * 2, strict=True):
        assert options.keys() <= taken[name].keys()
    trained = train_meshes(config, run, callbacks=callbacks)
    assert trained.is_finished
