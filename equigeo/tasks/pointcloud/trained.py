"""Trained point cloud classifier with class names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from equigeo.datasets import read_cloud
from equigeo.datasets.load_cloud_folder import MOST_POINTS, normalized_cloud
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.measures.classification import classify, ranking
from equigeo.tasks.pointcloud.config import PointConfig
from equigeo.tasks.pointcloud.data import fewer_points
from equigeo.tasks.pointcloud.models import POINT_MODELS
from equigeo.training.trained_model import TrainedModel

BATCH_SIZE: Final = 32  # clouds that are classified at once


class TrainedPointClassifier(TrainedModel[PointConfig]):
    """Trained point cloud classifier, as ``equigeo evaluate`` and ``predict`` load it."""

    task, what, config_type = "pointcloud", "classifier of point clouds", PointConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        """Build the model from its ``config``."""
        return POINT_MODELS[config.model].from_config(model)

    def logits(self, points: Tensor) -> Tensor:
        """Return logits (clouds, classes) of coordinates (clouds, points, 3)."""
        if len(points) == 0:
            return torch.zeros(0, len(self.classes))
        return classify(self.model, points.split(BATCH_SIZE))

    def flagged(self, points: Tensor) -> Tensor | None:
        """Return which clouds have an embedding that is not invariant up to rounding, (clouds,).

        None if the model has no embedding.
        """
        found = getattr(self.model, "flagged", None)
        return None if found is None else found(points)


def classify_cloud(
    classifier: TrainedPointClassifier,
    path: Path,
    top: int = 1,  # number of classes to return
) -> FilePrediction:
    """Read a file, sample its surface if it has one, and classify the points."""
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    number = classifier.config.points
    try:
        wanted = max(number, MOST_POINTS)  # and a part of these, as of the clouds of a folder
        points = read_cloud(path, wanted)
        if len(points) < number:
            raise ValueError(f"has {len(points)} points, the model takes {number}")
        cloud = fewer_points(normalized_cloud(points, wanted)[None], number)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    ranked = ranking(classifier.classes, classifier.logits(cloud)[0], top)
    flagged = classifier.flagged(cloud)
    remark = ""
    if flagged is not None and bool(flagged[0]):
        remark = "its embedding is not invariant up to rounding"
    return FilePrediction(path, ranked, "", remark=remark)
