import itertools
import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
import trimesh

from equigeo.datasets import articulated_shapes
from equigeo.mesh import PrimalDualClassifier, PrimalDualGraph, TriangleMesh
from equigeo.report import render_report
from equigeo.tasks.mesh_classification import (
    MESH_RECIPES,
    MeshClassification,
    MeshConfig,
    TrainedMeshClassifier,
    evaluate_mesh_classifier,
    random_copy,
    split_meshes,
)
from equigeo.tasks.mesh_classification import run as data
from equigeo.tasks.mesh_classification.run import LabelledMeshes
from equigeo.tasks.mesh_classification.task import MESH_COPIES, summarize_run
from equigeo.testing import tolerance
from tests.tasks.tiny_data import (
    StopAfterTwo,
    assert_same_state,
    config,
    dataset,
    small_classifier,
    train_meshes,
)
from tests.wrong_inputs import refused

__all__ = ["config", "dataset"]  # fixtures


def test_folder_split_is_as_shipped_and_not_everything_can_be_held_out(dataset):
    train, test = split_meshes(dataset, MeshConfig("memory"))
    assert torch.equal(train, dataset.in_train.nonzero().flatten())
    assert torch.equal(test, (~dataset.in_train).nonzero().flatten())
    with pytest.raises(ValueError, match="class 'ball' has no mesh to train on"):
        split_meshes(dataset, MeshConfig("memory", holdout=4))


def test_a_validation_split_is_evaluated_in_training_and_the_test_split_afterwards(
    dataset, config, tmp_path
):
    order = torch.arange(len(dataset)) % 6  # four training and two test meshes per class
    data = replace(dataset, in_val=order == 4)
    train, val = split_meshes(data, config, validate=True)
    assert set(order[train].tolist()) == {0, 1, 2, 3}
    assert set(order[val].tolist()) == {4}
    assert set(order[split_meshes(data, config)[1]].tolist()) == {5}
    refused("a validation split, val; leave out", split_meshes, data, replace(config, holdout=1))
    lacking = replace(data, in_val=(order == 4) & (data.labels != 1))
    refused("'capsule' has no mesh to evaluate on", split_meshes, lacking, config, validate=True)
    trained = train_meshes(replace(config, evaluate_every=1), tmp_path, data)
    assert trained.history[-1]["test_accuracy"] is None
    assert all(0 <= line["val_accuracy"] <= 1 for line in trained.history)
    (line,) = MeshClassification().summarize(trained)
    assert line == f"validation accuracy {trained.history[-1]['val_accuracy']:.2%}"
    evaluation = evaluate_mesh_classifier(trained, data, split_meshes(data, config)[1])
    summary = summarize_run(trained, evaluation, data, "equigeo evaluate")
    assert "the accuracy on the validation meshes" in render_report(summary)


def test_holdout_takes_training_meshes_and_keeps_groups_together(dataset):
    config = MeshConfig("memory", holdout=1)
    train, held = split_meshes(dataset, config)
    assert sorted([*train.tolist(), *held.tolist()]) == dataset.in_train.nonzero()[:, 0].tolist()
    assert dataset.labels[held].bincount().tolist() == [1, 1, 1]
    again = split_meshes(dataset, replace(config, seed=5))
    assert torch.equal(held, again[1])  # runs with several seeds are validated on the same meshes
    groups = torch.arange(len(dataset)) // 2  # the shipped parts have even numbers of meshes
    train, held = split_meshes(replace(dataset, groups=groups), MeshConfig("memory", holdout=1))
    assert not set(groups[train].tolist()) & set(groups[held].tolist())
    assert dataset.labels[held].bincount().tolist() == [2, 2, 2]
    alone = replace(dataset, groups=torch.arange(len(dataset)))
    config = MeshConfig("memory", holdout=2)
    assert torch.equal(split_meshes(alone, config)[1], split_meshes(dataset, config)[1])


def test_generated_data_sets_have_names(monkeypatch, tmp_path):
    monkeypatch.setattr(data, "GENERATED", {"cubes": lambda: "engraved cubes"})
    assert data.load_meshes("cubes") == "engraved cubes"
    task = MeshClassification()
    assert task.resolve_data("cubes") == "cubes"
    assert task.resolve_data("folder") != "folder"


@pytest.fixture
def graphs(dataset):
    meshes = dataset.meshes[:6]
    return LabelledMeshes([PrimalDualGraph.from_mesh(m) for m in meshes], dataset.labels[:6])


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


CHOSEN = torch.tensor([4, 0, 3])


def test_augmentations_are_repeatable_and_for_training_alone(graphs):
    noisy = replace(graphs, jitter=0.1).inputs(CHOSEN, _generator())
    expected = graphs.inputs(CHOSEN, None).jitter(0.1, _generator())
    assert torch.equal(noisy.x_dual, expected.x_dual)
    stretched = replace(graphs, stretch=0.3)
    first, again = (stretched.inputs(CHOSEN, _generator()) for _ in range(2))
    assert torch.equal(first.x_dual, again.x_dual)
    assert torch.equal(stretched.inputs(CHOSEN, None).x_dual, graphs.inputs(CHOSEN, None).x_dual)
    assert not torch.allclose(first.x_dual, graphs.inputs(CHOSEN, None).x_dual)
    assert not torch.allclose(first.x_dual, stretched.inputs(CHOSEN, _generator(1)).x_dual)


def test_every_mesh_is_drawn_among_its_resolutions_evenly_and_standardized_by_all(dataset):
    config = MeshConfig("memory")
    recipe = replace(config.recipe, resolutions=(0.5, 2.0), jitter=0.0)
    plan = MeshClassification().plan(replace(config, recipe=recipe), dataset)
    train = plan.train
    faces = [graph.num_primal for graph in train.graphs]
    for share, version in zip(recipe.resolutions, train.resampled, strict=True):
        assert [graph.num_primal for graph in version.graphs] == [round(share * n) for n in faces]
    chosen = torch.zeros(900, dtype=torch.long)
    counts = train.inputs(chosen, _generator()).primal_batch.bincount()
    drawn = [(counts == share * faces[0]).sum().item() for share in (0.5, 1, 2)]
    assert sum(drawn) == 900
    assert min(drawn) > 250  # four deviations of a share of one third
    assert (train.inputs(chosen[:9], None).primal_batch.bincount() == faces[0]).all()
    alone = MeshClassification().plan(
        replace(config, recipe=replace(recipe, resolutions=())), dataset
    )
    means = [each.model.standardize_dual.mean for each in (plan, alone)]
    assert not torch.allclose(*means)


def test_damaged_versions_are_drawn_and_repeatable(dataset):
    config = MeshConfig("memory")
    config = replace(config, recipe=replace(config.recipe, damaged=3))
    first, again = (MeshClassification().plan(config, dataset).train for _ in range(2))
    assert len(first.resampled) == 3
    places = [
        [graph.surface.vertices for graph in version.graphs]
        for version in (first, *first.resampled, *again.resampled)
    ]
    for one, other in zip(places[1:4], places[4:], strict=True):
        assert all(map(torch.equal, one, other))
    for one, other in itertools.pairwise(places[:4]):
        changed = [
            a.shape != b.shape or not torch.equal(a, b) for a, b in zip(one, other, strict=True)
        ]
        assert any(changed)


def test_batches_hold_so_many_meshes_and_faces_and_a_larger_mesh_alone(graphs, monkeypatch):
    sizes = [graph.num_primal for graph in graphs.graphs]
    assert [len(batch.labels) for batch in graphs.batches(4)] == [4, 2]
    monkeypatch.setattr("equigeo.tasks.common.mesh_data.MOST_FACES", sum(sizes[:3]))
    batches = [*graphs.batches(32)]
    assert [len(batch.labels) for batch in batches] == [3, 3]
    assert torch.equal(torch.cat([batch.labels for batch in batches]), graphs.labels)
    monkeypatch.setattr("equigeo.tasks.common.mesh_data.MOST_FACES", min(sizes) - 1)
    assert [batch.inputs.num_primal for batch in graphs.batches(32)] == sizes


TEST = torch.tensor([4, 5, 10, 11, 16, 17])


def test_numbers_agree_with_a_recomputation_and_symmetries_change_no_prediction(trained, dataset):
    result = evaluate_mesh_classifier(trained, dataset, TEST)
    predicted = [int(trained.logits([dataset.meshes[i]]).argmax()) for i in TEST]
    assert result.predictions == predicted
    assert result.labels == dataset.labels[TEST].tolist()
    assert result.names == [dataset.names[i] for i in TEST]
    pairs = list(zip(result.labels, predicted, strict=True))
    assert result.accuracy == sum(a == b for a, b in pairs) / len(pairs)
    assert result.confusion == [[pairs.count((a, b)) for b in range(3)] for a in range(3)]
    result = evaluate_mesh_classifier(trained, dataset, TEST, seed=3)
    assert [copy.kind for copy in result.copies] == list(MESH_COPIES)
    for copy in result.copies:
        assert copy.changed == []
        assert copy.accuracy == result.accuracy
        # means over the 120 faces of a torus
        assert copy.largest_difference < tolerance(torch.float32, 120)["atol"]


def test_a_model_without_the_symmetry_is_found_out(trained, dataset):
    class Lopsided:
        classes, config = trained.classes, trained.config

        def logits(self, meshes):
            heights = torch.stack([mesh.vertices.mean(dim=0) for mesh in meshes])
            return heights - heights.mean(dim=0)

        def novelties(self, meshes):
            return None

        def trained_on(self, digests):
            return None

    result = evaluate_mesh_classifier(Lopsided(), dataset, TEST)
    assert {copy.kind for copy in result.copies if copy.changed} >= {"rotated", "translated"}


def test_classes_in_another_order_are_matched_by_name_and_others_refused(trained, dataset):
    shuffled = replace(dataset, labels=2 - dataset.labels, classes=dataset.classes[::-1])
    results = [evaluate_mesh_classifier(trained, d, TEST) for d in (dataset, shuffled)]
    assert results[0] == results[1]
    foreign = replace(dataset, classes=("ball", "capsule", "spoon"))
    refused("does not know: spoon", evaluate_mesh_classifier, trained, foreign, TEST)
    refused("no meshes", evaluate_mesh_classifier, trained, dataset, TEST[:0])


@pytest.mark.full
def test_solids_resemble_none_of_the_built_in_shapes(tmp_path):
    # The network is sure of a sphere, a cube and a cylinder, and they are noticed all the same.
    data = articulated_shapes(per_class=4, faces=200, cache=tmp_path)
    recipe = replace(MESH_RECIPES["default"], epochs=12)
    config = MeshConfig("builtin", recipe=recipe)
    trained = MeshClassification().train(config, tmp_path / "run", data=data)
    create = trimesh.creation
    solids = [create.icosphere(2), create.box().subdivide().subdivide(), create.cylinder(0.5, 2)]
    meshes = [TriangleMesh.from_trimesh(solid) for solid in solids]
    assert trained.logits(meshes).softmax(dim=1).amax(dim=1).max() > 0.8
    assert min(trained.novelties(meshes)) > 1.5
    test = [data.meshes[i] for i in (~data.in_train).nonzero().flatten().tolist()]
    assert max(trained.novelties(test)) < 1  # sixteen shapes that the network has not seen


def test_a_report_is_made_of_plain_results_and_counts_what_resembles_nothing(trained, dataset):
    evaluation = evaluate_mesh_classifier(trained, dataset, TEST)
    results = summarize_run(trained, evaluation, dataset, "equigeo evaluate x")
    assert json.loads(json.dumps(results)) == json.loads(json.dumps(results, allow_nan=False))
    shapes = results["shapes"]
    assert 3 <= len(shapes) <= 6
    wrong = [shape["label"] != shape["prediction"] for shape in shapes]
    assert wrong == sorted(wrong, reverse=True)  # mistakes come first
    assert all(len(s["levels"]) == 1 and len(s["levels"][0]) == len(s["faces"]) for s in shapes)
    assert shapes[0]["name"] in render_report(results)
    assert len(evaluation.novelties) == len(TEST)
    strange = replace(evaluation, novelties=[2.0, *[0.5] * (len(TEST) - 1)])
    assert strange.unfamiliar == [evaluation.names[0]]
    results = summarize_run(trained, strange, dataset, "equigeo evaluate x")
    assert ("resemble nothing it was trained on", "1 of 6 meshes") in results["facts"]
    # a checkpoint of an earlier version says nothing, and nothing is said of it
    silent = summarize_run(trained, replace(evaluation, novelties=None), dataset, "x")
    assert not any("resemble" in name for name, _ in silent["facts"])
    assert not any(shape["unfamiliar"] for shape in silent["shapes"])


def with_recipe(config, **recipe):
    return replace(config, recipe=replace(config.recipe, **recipe))


def state(trained):
    return trained.model.state_dict()


@pytest.fixture(scope="module")
def folder(config, tmp_path_factory):
    """Folder of a finished run; tests must not write into it."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_meshes(config, folder)
    return folder


@pytest.fixture(scope="module")
def trained(folder):
    return TrainedMeshClassifier.load(folder / "model.ckpt")


def test_run_leaves_its_three_files_and_the_accuracy_of_the_saved_model(
    config, folder, trained, dataset
):
    assert {p.name for p in folder.iterdir()} == {"config.json", "history.json", "model.ckpt"}
    saved = json.loads((folder / "config.json").read_text())
    assert MeshConfig.from_dict(saved) == config == trained.config
    history = json.loads((folder / "history.json").read_text())
    assert history == trained.history
    assert [line["epoch"] for line in history] == [1, 2, 3]
    assert [line["test_accuracy"] is None for line in history] == [True, True, False]
    test = (~dataset.in_train).nonzero().flatten()
    logits = trained.logits([dataset.meshes[i] for i in test])
    right = (logits.argmax(dim=1) == dataset.labels[test]).double().mean().item()
    assert trained.history[-1]["test_accuracy"] == right


_KILLED = """
import json, os, signal, sys
from pathlib import Path
from tests.tasks.tiny_data import train_meshes
from equigeo.tasks.mesh_classification import MeshConfig
from equigeo.training.loop import fit as callbacks
from equigeo.training.loop.module import L

callbacks.SAVE_SECONDS = 0.0  # after every step

class Kill(L.Callback):
    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if (module.epoch, batch_idx) == (1, 2):
            os.kill(os.getpid(), signal.SIGKILL)

config = MeshConfig.from_dict(json.loads(sys.argv[1]))
train_meshes(config, Path(sys.argv[2]), callbacks=[Kill()])
"""


@pytest.mark.full
def test_run_killed_within_an_epoch_resumes_to_the_same_weights(config, tmp_path):
    config = replace(with_recipe(config, ema_decay=0.9), evaluate_every=1)
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", _KILLED, json.dumps(config.to_dict()), folder]
    assert subprocess.run(command, check=False).returncode == -9
    assert len(json.loads((folder / "history.json").read_text())) == 1
    saved = torch.load(folder / "model.ckpt", weights_only=True)["training"]
    assert (saved["epochs"], saved["step"]) == (1, 2)
    assert saved["seconds"] > 0
    resumed = train_meshes(config, folder, resume=True)
    whole = train_meshes(config, tmp_path / "whole")
    assert_same_state(state(resumed), state(whole))
    for name in ("epoch", "loss", "train_accuracy", "test_accuracy"):
        assert [a[name] for a in resumed.history] == [b[name] for b in whole.history]


@pytest.mark.parametrize("ema_decay", [0.0, pytest.param(0.5, marks=pytest.mark.full)])
def test_short_run_saves_what_it_has_learnt(tmp_path, ema_decay):
    # Eight epochs of one step leave running statistics near their initial values.
    recipe = replace(MESH_RECIPES["default"], epochs=8, batch_size=12, ema_decay=ema_decay)
    runs = {}
    for update in (False, True):
        config = MeshConfig("memory", recipe=replace(recipe, update_bn=update))
        torch.manual_seed(0)
        # features of one ring, which take these steps to tell the classes
        model = PrimalDualClassifier.preset("default", 3, features="invariant")
        runs[update] = train_meshes(config, tmp_path / str(update), model=model)
    lagging, updated = (runs[update].history[-1] for update in (False, True))
    assert lagging["train_accuracy"] == updated["train_accuracy"] > 0.9  # the same training
    assert lagging["test_accuracy"] <= 2 / 3  # negative control: chance is a third
    assert updated["test_accuracy"] > 0.8
    assert_same_state(*(dict(run.model.named_parameters()) for run in runs.values()))


def test_statistics_are_updated_in_the_evaluated_model_alone(config, tmp_path):
    run = train_meshes(with_recipe(config, update_bn=True), tmp_path)
    # as many batches as a pass has
    assert int(run.model.head[0].num_batches_tracked) == 3
    # the weights to resume from have counted every step
    training = torch.load(tmp_path / "model.ckpt", weights_only=True)["training"]
    assert int(training["weights"]["head.0.num_batches_tracked"]) == 9


def test_stopped_run_tells_no_novelty_and_warns_of_another_number_of_threads(
    config, dataset, tmp_path, monkeypatch
):
    threads = torch.get_num_threads()
    stopped = train_meshes(config, tmp_path, callbacks=[StopAfterTwo()])
    assert stopped.novelty is None
    assert stopped.novelties(dataset.meshes) is None
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads + 1)
    with pytest.warns(UserWarning, match=rf"with \[{threads}\] threads .* {threads + 1}"):
        resumed = train_meshes(config, tmp_path, resume=True)
    assert [line["threads"] for line in resumed.history] == [threads, threads, threads + 1]


def test_finished_run_tells_what_resembles_nothing(dataset, trained):
    familiar = trained.novelties([dataset.meshes[i] for i in dataset.in_train.nonzero().flatten()])
    assert max(familiar) < 1
    turned = random_copy(dataset.meshes[0], "all of these", torch.Generator().manual_seed(0))
    # Vectors are float32; the inverse of their covariance multiplies rounding by up to 1e3.
    assert trained.novelties([turned])[0] == pytest.approx(familiar[0], rel=1e-4)
    assert trained.novelties([]) == []


def test_augmentations_change_the_loss_and_other_resolutions_are_familiar(
    config, tmp_path, trained
):
    config = with_recipe(config, stretch=0.2, resolutions=(0.6,))
    other = train_meshes(config, tmp_path)
    assert other.history[0]["loss"] != trained.history[0]["loss"]
    assert other.novelty.share == pytest.approx(24 / 25)  # twelve meshes at two resolutions


def test_resuming_before_the_first_checkpoint_starts_over(config, folder, trained, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "copy")
    (copied / "model.ckpt").unlink()
    (copied / "history.json").unlink()
    model, before = small_classifier(), torch.get_rng_state()
    begun = train_meshes(config, copied, model=model, resume=True)
    assert torch.equal(before, torch.get_rng_state())  # the global generator is left alone
    assert_same_state(state(trained), state(begun))
