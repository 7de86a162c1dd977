"""Classification of affinely transformed digits after training on centred ones (affNIST)."""

from equigeo.tasks.affnist.cli import AffNISTClassification
from equigeo.tasks.affnist.config import IMAGE_RECIPES, ImageConfig
from equigeo.tasks.affnist.data import Digits
from equigeo.tasks.affnist.evaluate import IMAGE_TESTS, ImageEvaluation, evaluate_image_classifier
from equigeo.tasks.affnist.logits import logit_change
from equigeo.tasks.affnist.models import IMAGE_MODELS, PlainCNN, PlainCNNConfig
from equigeo.tasks.affnist.trained import TrainedImageClassifier

__all__ = [
    "IMAGE_MODELS",
    "IMAGE_RECIPES",
    "IMAGE_TESTS",
    "AffNISTClassification",
    "Digits",
    "ImageConfig",
    "ImageEvaluation",
    "PlainCNN",
    "PlainCNNConfig",
    "TrainedImageClassifier",
    "evaluate_image_classifier",
    "logit_change",
]


def __dir__() -> list[str]:
    return __all__
