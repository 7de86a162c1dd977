from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from equigeo.datasets import load_modelnet_points
from equigeo.tasks.pointcloud import (
    POINT_MODELS,
    PointCloudClassification,
    evaluate_point_classifier,
)
from equigeo.tasks.pointcloud.data import LabelledClouds, load_clouds
from tests.tasks import stand_in


@pytest.fixture(autouse=True)
def _model(monkeypatch):
    monkeypatch.setitem(POINT_MODELS, "affine", stand_in.PointNet)


def _are_among(few, many):
    same = (few[:, :, None] == many[:, None]).all(dim=-1)
    return bool(same.any(dim=-1).all())


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
    five_errors = 5 / (2 * moved.numel()) ** 0.5  # of a deviation of so many numbers
    assert (moved - train.points[0]).std().item() == pytest.approx(0.1, rel=five_errors)


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
