"""Trained image classifier with class names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equigeo.datasets import digit_canvas, read_image
from equigeo.tasks.affnist.config import ImageConfig
from equigeo.tasks.affnist.logits import image_logits
from equigeo.tasks.affnist.models import IMAGE_MODELS
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.measures.classification import ranking
from equigeo.training.trained_model import TrainedModel


class TrainedImageClassifier(TrainedModel[ImageConfig]):
    """Trained image classifier, as ``equigeo evaluate`` and ``predict`` load it."""

    task, what, config_type = "affnist", "image classifier", ImageConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        """Build the model from its ``config`` and the preset."""
        return IMAGE_MODELS[config.preset].from_config(model)

    def logits(self, images: Tensor) -> Tensor:
        """Return logits (images, classes) of uint8 images (images, 40, 40) with background 0."""
        if len(images) == 0:
            return torch.zeros(0, len(self.classes))
        return image_logits(self.model, images)


def classify_image(
    classifier: TrainedImageClassifier,
    path: Path,
    top: int = 1,  # number of classes to return
) -> FilePrediction:
    """Read an image file, place it on the training canvas and classify it."""
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    try:
        image, note = digit_canvas(read_image(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    ranked = ranking(classifier.classes, classifier.logits(image[None])[0], top)
    return FilePrediction(path, ranked, f"{path}: {note}" if note else "")
