from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from equigeo.mds import InvariantPointNet, InvariantPointNetConfig
from equigeo.tasks.measures.cloud_copies import CLOUD_COPIES
from equigeo.tasks.pointcloud import (
    POINT_MODELS,
    PointCloudClassification,
    evaluate_point_classifier,
)
from equigeo.tasks.pointcloud.data import load_clouds
from equigeo.testing import tolerance
from equigeo.training import time_limit
from tests.tasks import stand_in

ROUNDING = tolerance(torch.float32, 64)["atol"]  # of logits, in their deviation


@pytest.fixture(autouse=True)
def _model(monkeypatch):
    monkeypatch.setitem(POINT_MODELS, "affine", stand_in.PointNet)


def _assert_same(left, right):
    a, b = left.model.state_dict(), right.model.state_dict()
    assert all(torch.equal(a[name], b[name]) for name in b)
    for first, second in zip(left.history, right.history, strict=True):
        assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_training_learns_and_measures_invariance(config, tmp_path):
    config = replace(config, recipe=replace(config.recipe, epochs=25))
    trained = PointCloudClassification().train(config, tmp_path / "run")
    last = trained.history[-1]
    assert last["test_accuracy"] > 0.8  # chance is a third
    assert last["rotated_accuracy"] == last["test_accuracy"]
    assert last["logit_change"] < ROUNDING
    result = evaluate_point_classifier(trained)
    assert result.accuracy == last["test_accuracy"]
    assert sum(map(sum, result.confusion)) == len(result.labels) == 12
    changed = {copy.kind: copy.changed for copy in result.copies}
    assert list(changed) == list(CLOUD_COPIES) == list(result.logit_changes)
    for kind in ("rotated", "reflected", "translated", "re-ordered"):
        assert changed[kind] == []
        assert result.logit_changes[kind] < ROUNDING
    for kind in ("scaled", "sheared"):  # which this model does not promise
        assert result.logit_changes[kind] > 1e-2
    assert json.loads(json.dumps(result.to_dict()))["accuracy"] == result.accuracy


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
    assert trained.model.config == settings
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
