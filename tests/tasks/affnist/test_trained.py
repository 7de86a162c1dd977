from __future__ import annotations

import pytest
import torch

from equigeo.tasks.affnist import (
    AffNISTClassification,
    TrainedImageClassifier,
)
from equigeo.tasks.mesh_classification import TrainedMeshClassifier
from equigeo.training import CheckpointError


def test_a_checkpoint_of_another_task_is_refused(trained, config, tmp_path):
    run = tmp_path / "run"
    AffNISTClassification().train(config, run)
    with pytest.raises(CheckpointError, match="is for the task 'affnist'"):
        TrainedMeshClassifier.load(run / "model.ckpt")
    content = torch.load(run / "model.ckpt", weights_only=True)
    for key, value in (("classes", ["a"]), ("train", {}), ("model", {"num_classes": 10, "x": 1})):
        broken = content | {"config": content["config"] | {key: value}}
        torch.save(broken, tmp_path / "broken.ckpt")
        with pytest.raises(CheckpointError, match="does not fit this version's image classifier"):
            TrainedImageClassifier.load(tmp_path / "broken.ckpt")
