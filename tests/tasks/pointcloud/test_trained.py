from __future__ import annotations

import pytest
import torch

from equigeo.tasks.pointcloud import (
    POINT_MODELS,
    PointCloudClassification,
    TrainedPointClassifier,
)
from equigeo.training import CheckpointError
from tests.tasks import stand_in


@pytest.fixture(autouse=True)
def _model(monkeypatch):
    monkeypatch.setitem(POINT_MODELS, "affine", stand_in.PointNet)


def test_a_model_of_another_family_is_refused(config, tmp_path):
    PointCloudClassification().train(config, tmp_path)
    content = torch.load(tmp_path / "model.ckpt", weights_only=True)
    content["config"]["train"]["model"] = "other"
    torch.save(content, tmp_path / "model.ckpt")
    with pytest.raises(CheckpointError, match="does not fit this version's classifier of point"):
        TrainedPointClassifier.load(tmp_path / "model.ckpt")
