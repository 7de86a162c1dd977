"""A trained classifier of point clouds with the names of its classes."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from equigeo.tasks.measures.classification import classify
from equigeo.tasks.pointcloud.config import PointConfig
from equigeo.tasks.pointcloud.models import POINT_MODELS
from equigeo.training.trained_model import TrainedModel

BATCH_SIZE: Final = 32  # clouds that are classified at once


class TrainedPointClassifier(TrainedModel[PointConfig]):
    """What a run on point clouds produces and ``equigeo evaluate`` loads."""

    task, what, config_type = "pointcloud", "classifier of point clouds", PointConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        """Build the model from its ``config`` and its family."""
        return POINT_MODELS[config.model].from_config(model)

    def logits(self, points: Tensor) -> Tensor:
        """Classify clouds, as many points of each as are given.

        Parameters
        ----------
        points : Tensor, (clouds, points, 3)
            Coordinates.

        Returns
        -------
        Tensor, (clouds, classes)
            Logits.
        """
        if len(points) == 0:
            return torch.zeros(0, len(self.classes))
        return classify(self.model, points.split(BATCH_SIZE))

    def flagged(self, points: Tensor) -> Tensor | None:
        """Tell of which clouds the embedding is not invariant up to rounding.

        Parameters
        ----------
        points : Tensor, (clouds, points, 3)
            Coordinates.

        Returns
        -------
        Tensor, (clouds,), bool, optional
            None where the model has no embedding.
        """
        found = getattr(self.model, "flagged", None)
        return None if found is None else found(points)
