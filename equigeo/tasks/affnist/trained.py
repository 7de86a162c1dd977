"""A trained image classifier with the names of its classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equigeo.tasks.affnist.config import ImageConfig
from equigeo.tasks.affnist.logits import image_logits
from equigeo.tasks.affnist.models import IMAGE_MODELS
from equigeo.training.trained_model import TrainedModel


class TrainedImageClassifier(TrainedModel[ImageConfig]):
    """What a run on affNIST produces and ``equigeo evaluate`` loads."""

    task, what, config_type = "affnist", "image classifier", ImageConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        """Build the model from its ``config`` and the preset."""
        return IMAGE_MODELS[config.preset].from_config(model)

    def trial(self) -> tuple[str, Callable[[], Any]]:
        """Classify random images."""
        values = torch.rand(32, 40, 40, generator=torch.Generator().manual_seed(0))
        images = (255 * values).to(torch.uint8)
        return f"{len(images)} images of 40 x 40", lambda: self.logits(images)

    def logits(self, images: Tensor) -> Tensor:
        """Classify images.

        Parameters
        ----------
        images : Tensor, (images, 40, 40), uint8
            Grey values, background 0.

        Returns
        -------
        Tensor, (images, classes)
            Logits.
        """
        if len(images) == 0:
            return torch.zeros(0, len(self.classes))
        return image_logits(self.model, images)
