from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from equigeo.tasks.pointcloud import (
    POINT_MODELS,
    PointCloudClassification,
    TrainedPointClassifier,
    evaluate_point_classifier,
)
from tests.tasks import stand_in


@pytest.fixture(autouse=True)
def _model(monkeypatch):
    monkeypatch.setitem(POINT_MODELS, "affine", stand_in.PointNet)


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
