from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from equigeo.datasets import load_modelnet_points
from equigeo.mds import InvariantPointNet, InvariantPointNetConfig
from equigeo.tasks.measures.cloud_copies import CLOUD_COPIES, cloud_copies
from equigeo.tasks.pointcloud import (
    POINT_MODELS,
    POINT_PRESETS,
    PointCloudClassification,
    PointConfig,
    TrainedPointClassifier,
    evaluate_point_classifier,
)
from equigeo.tasks.pointcloud.data import LabelledClouds, load_clouds
from equigeo.training import CheckpointError, Recipe, time_limit
from tests.tasks import stand_in

MODELS = dict(POINT_MODELS)


@pytest.fixture(autouse=True)
def _model(monkeypatch):
    monkeypatch.setitem(POINT_MODELS, "affine", stand_in.PointNet)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return stand_in.write_tiny_clouds(tmp_path_factory.mktemp("clouds"))


@pytest.fixture
def config(folder):
    recipe = Recipe(epochs=3, batch_size=6, learning_rate=1e-2, jitter=0.01, ema_decay=0.5)
    return PointConfig(str(folder), recipe=recipe, points=32)


def _assert_same(left, right):
    a, b = left.model.state_dict(), right.model.state_dict()
    assert all(torch.equal(a[name], b[name]) for name in b)
    for first, second in zip(left.history, right.history, strict=True):
        assert {**first, "seconds": 0} == {**second, "seconds": 0}


def _are_among(few, many):
    same = (few[:, :, None] == many[:, None]).all(dim=-1)
    return bool(same.any(dim=-1).all())


def test_training_learns_and_measures_invariance(config, tmp_path):
    config = replace(config, recipe=replace(config.recipe, epochs=25))
    trained = PointCloudClassification().train(config, tmp_path / "run")
    last = trained.history[-1]
    assert last["test_accuracy"] > 0.8  # chance is a third
    assert last["rotated_accuracy"] == last["test_accuracy"]
    assert last["logit_change"] < 1e-4
    result = evaluate_point_classifier(trained)
    assert result.accuracy == last["test_accuracy"]
    assert sum(map(sum, result.confusion)) == len(result.labels) == 12
    changed = {copy.kind: copy.changed for copy in result.copies}
    assert list(changed) == list(CLOUD_COPIES) == list(result.logit_changes)
    for kind in ("rotated", "reflected", "translated", "re-ordered"):
        assert changed[kind] == []
        assert result.logit_changes[kind] < 1e-4
    for kind in ("scaled", "sheared"):  # which this model does not promise
        assert result.logit_changes[kind] > 1e-2
    assert json.loads(json.dumps(result.to_dict()))["accuracy"] == result.accuracy


def test_a_model_without_the_symmetry_is_found_out(config, tmp_path):
    model = stand_in.PointNet(3, invariant=False)
    trained = PointCloudClassification().train(config, tmp_path / "run", model=model)
    assert trained.history[-1]["logit_change"] > 0.05


def test_models_behind_an_embedding_say_which_clouds_are_doubtful(config, folder, tmp_path):
    config = replace(config, model="mds", preset="pointnet")
    trained = PointCloudClassification().train(config, tmp_path / "run")
    result = evaluate_point_classifier(trained)
    assert result.flagged == []
    kinds = {copy.kind: copy.accuracy for copy in result.copies}
    assert result.unflagged_accuracy == {"upright": result.accuracy, **kinds}
    assert [copy.changed for copy in result.copies if copy.kind == "rotated"] == [[]]

    doubtful = tmp_path / "doubtful"
    stand_in.write_tiny_clouds(doubtful)
    arrays = dict(np.load(doubtful / "modelnet10_test_a.npz"))
    half = arrays["points"][:2, :24]
    arrays["points"][:2] = np.concatenate([half, -half], axis=1)
    np.savez(doubtful / "modelnet10_test_a.npz", **arrays)
    whole = TrainedPointClassifier(
        trained.model, trained.classes, replace(config, points=48), trained.version
    )
    result = evaluate_point_classifier(whole, data=str(doubtful))
    assert result.flagged == [0, 1]
    right = [p == y for p, y in zip(result.predictions, result.labels, strict=True)]
    assert result.unflagged_accuracy["upright"] == pytest.approx(sum(right[2:]) / 10)


def test_a_class_and_what_is_up_are_learned_together_in_drawn_frames(config, tmp_path):
    folder = stand_in.write_tiny_clouds(tmp_path / "standing")
    for file in folder.glob("*.npz"):
        arrays = dict(np.load(file))
        height = np.abs(arrays["points"][..., 2] / 32767.0)  # many points below, few above
        arrays["points"][..., 2] = np.round(32767 * height**2)
        np.savez(file, **arrays)
    recipe = replace(config.recipe, epochs=30, logit_adjustment=0.5)
    config = replace(config, data=str(folder), model="mds", preset="pointnet", recipe=recipe)
    settings = InvariantPointNetConfig(
        3, kind="frames", training_kind="frames", training_sample=True, upright=True
    )
    trained = PointCloudClassification().train(
        config, tmp_path / "run", model=InvariantPointNet(settings)
    )
    assert trained.model.config == settings.to_dict()
    train, _ = load_clouds(config)
    logits, up = trained.model.pairs(train.points)
    assert (logits.logsumexp(1).argmax(-1) == up).double().mean() > 0.5  # chance is a sixth
    result = evaluate_point_classifier(trained)
    assert result.accuracy > 0.6  # chance is a third
    assert [copy.changed for copy in result.copies if copy.kind == "rotated"] == [[]]


def test_the_plain_network_is_trained_upright_and_fails_rotated(config, tmp_path):
    recipe = replace(config.recipe, epochs=12)
    config = replace(config, model="plain", preset="pointnet", recipe=recipe)
    trained = PointCloudClassification().train(config, tmp_path / "run")
    result = evaluate_point_classifier(trained)
    assert (result.flagged, result.unflagged_accuracy) == (None, {})
    by_kind = {copy.kind: copy for copy in result.copies}
    assert by_kind["scaled"].changed == by_kind["translated"].changed == []
    assert result.logit_changes["rotated"] > 0.05


def test_any_number_of_sessions_ends_with_the_weights_of_one(config, tmp_path):
    whole = PointCloudClassification().train(config, tmp_path / "whole")
    part = PointCloudClassification().train(config, tmp_path / "parts", callbacks=time_limit(1e-9))
    while len(part.history) < 3:
        part = PointCloudClassification().train(
            config, tmp_path / "parts", resume=True, callbacks=time_limit(1e-9)
        )
    _assert_same(part, whole)
    other = PointCloudClassification().train(replace(config, seed=1), tmp_path / "other")
    assert not torch.equal(other.model.head[1].weight, whole.model.head[1].weight)


def test_training_draws_points_anew_and_evaluation_once_for_all(config, folder):
    train, test = load_clouds(config)
    assert (train.points.shape, test.points.shape) == ((24, 48, 3), (12, 32, 3))
    assert torch.equal(load_clouds(replace(config, seed=3))[1].points, test.points)
    whole = load_modelnet_points(folder, "test").points
    assert _are_among(test.points, whole)
    assert not torch.equal(test.points, whole[:, :32])

    source = LabelledClouds(train.points, train.labels, 32)
    first, second = (
        source.batch([3, 1], generator=torch.Generator().manual_seed(s)).inputs for s in (0, 1)
    )
    assert first.shape == (2, 32, 3)
    assert not torch.equal(first, second)
    assert all(len(cloud.unique(dim=0)) == 32 for cloud in first)
    assert _are_among(first, train.points[[3, 1]])
    assert torch.equal(source.batch([3, 1]).inputs, train.points[[3, 1]])
    noisy = LabelledClouds(train.points, train.labels, 48, jitter=0.1)
    moved = noisy.batch([0], generator=torch.Generator().manual_seed(0)).inputs
    assert (moved - train.points[0]).std().item() == pytest.approx(0.1, rel=0.3)


def test_holding_out_leaves_the_test_file_unopened(config, folder, tmp_path):
    (tmp_path / "data").mkdir()
    file = "modelnet10_train.npz"
    (tmp_path / "data" / file).write_bytes((folder / file).read_bytes())
    held = replace(config, data=str(tmp_path / "data"), holdout=2)
    train, evaluated = load_clouds(held)
    assert train.labels.bincount().tolist() == [6, 6, 6]
    assert evaluated.labels.bincount().tolist() == [2, 2, 2]
    assert torch.cdist(evaluated.points.flatten(1), train.points[:, :32].flatten(1)).amin() > 0.1
    assert len(PointCloudClassification().train(held, tmp_path / "run").history) == 3
    with pytest.raises(ValueError, match=r"modelnet10_test_a\.npz: no such file"):
        load_clouds(replace(held, holdout=0))
    with pytest.raises(ValueError, match="class 'ball' has 8 training clouds, too few"):
        load_clouds(replace(held, holdout=8))


@pytest.mark.parametrize("kind", CLOUD_COPIES)
def test_copies_are_what_they_are_called(kind):
    points = torch.randn(5, 20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moved = cloud_copies(points, kind)
    assert torch.equal(moved, cloud_copies(points, kind))
    assert torch.equal(moved[:2], cloud_copies(points[:2], kind))
    assert not torch.allclose(moved, cloud_copies(points, kind, seed=1))
    assert not torch.allclose(moved, points)
    if kind == "re-ordered":
        assert torch.equal(moved.sort(dim=1).values, points.sort(dim=1).values)
        return
    linear = torch.linalg.lstsq(points - points[:, :1], moved - moved[:, :1]).solution
    determinant, stretch = torch.linalg.det(linear), torch.linalg.svdvals(linear)
    if kind == "scaled":
        assert (stretch.amax(1) - stretch.amin(1)).abs().max() < 1e-12
        assert stretch.min() > 0.24
    else:
        sign = -1 if kind == "reflected" else 1
        torch.testing.assert_close(determinant, torch.full_like(determinant, sign))
    assert ((stretch - 1).abs().max() > 0.05) == (kind in ("scaled", "sheared"))


def test_unknown_kinds_and_models_are_refused():
    with pytest.raises(ValueError, match="kind must be one of rotated"):
        cloud_copies(torch.zeros(1, 2, 3), "twisted")
    with pytest.raises(ValueError, match="model must be one of affine, mds, plain"):
        PointConfig("clouds", model="best")


def test_data_that_do_not_fit_are_refused(config, folder, tmp_path):
    with pytest.raises(ValueError, match="clouds have 48 points, not 49"):
        PointCloudClassification().train(replace(config, points=49), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    trained = PointCloudClassification().train(config, tmp_path / "run")
    foreign = tmp_path / "foreign"
    stand_in.write_tiny_clouds(foreign)
    for file in foreign.iterdir():
        arrays = dict(np.load(file))
        np.savez(file, **(arrays | {"classes": np.array(["a", "b", "c"])}))
    with pytest.raises(ValueError, match="have the classes a, b, c, the checkpoint ball"):
        evaluate_point_classifier(trained, data=str(foreign))


def test_a_model_of_another_family_is_refused(config, tmp_path):
    PointCloudClassification().train(config, tmp_path)
    content = torch.load(tmp_path / "model.ckpt", weights_only=True)
    content["config"]["train"]["model"] = "other"
    torch.save(content, tmp_path / "model.ckpt")
    with pytest.raises(CheckpointError, match="does not fit this version's classifier of point"):
        TrainedPointClassifier.load(tmp_path / "model.ckpt")


PRESETS = [(model, preset) for model, presets in POINT_PRESETS.items() for preset in presets]


@pytest.mark.parametrize(("model", "preset"), PRESETS)
def test_presets_give_recipe_points_and_a_model_and_survive_json(model, preset, tmp_path):
    options = {"data": "x", "preset": preset, "model": model, "seed": 3, "holdout": 5}
    config = PointCloudClassification().configure(tmp_path, options)
    said = POINT_PRESETS[model][preset]
    assert (config.recipe, config.points) == (said.recipe, said.points)
    assert (config.preset, config.model, config.seed, config.holdout) == (preset, model, 3, 5)
    assert config == replace(PointConfig.of_preset(config.data, preset, model), seed=3, holdout=5)
    fewer = PointCloudClassification().configure(tmp_path, options | {"points": 7})
    assert fewer == replace(config, points=7)
    assert PointConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(("model", "preset"), PRESETS)
def test_models_of_presets_are_rebuilt_from_json(model, preset):
    built = MODELS[model].preset(preset, num_classes=3).eval()
    again = MODELS[model].from_config(json.loads(json.dumps(built.config))).eval()
    again.load_state_dict(built.state_dict())
    clouds = torch.rand(2, 40, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(again(clouds), built(clouds))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": 0}, "points must be at least 1"),
        ({"holdout": -1}, "holdout must not be negative"),
        ({"model": "best"}, "model must be one of affine, mds, plain"),
    ],
)
def test_a_configuration_out_of_range_names_its_field(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        PointConfig("x", **changes)
    with pytest.raises(ValueError, match=message):
        PointCloudClassification().configure(tmp_path, {"data": "x"} | changes)
