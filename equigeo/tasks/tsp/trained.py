"""Trained tour model."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor

from equigeo.mds import AttentionModel, Tours
from equigeo.tasks.tsp.config import TourConfig
from equigeo.tasks.tsp.find_tours import find_tours
from equigeo.training.trained_model import TrainedModel


class TrainedTourModel(TrainedModel[TourConfig]):
    """Trained tour model, as ``equigeo evaluate`` loads it."""

    task, what, config_type = "tsp", "model of tours", TourConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        """Build the model from its ``config``."""
        return AttentionModel.from_config(model)

    def solve(self, cities: Tensor, *, every_start: bool = False, augment: bool = False) -> Tours:
        """Return the best tour of each instance (B, cities, 2), computed in float64.

        ``every_start`` and ``augment`` are those of :meth:`equigeo.mds.AttentionModel.solve`.
        """
        exact = copy.deepcopy(self.model).double()
        return find_tours(exact, cities.double(), every_start=every_start, augment=augment)
