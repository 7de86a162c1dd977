"""Classification of affinely transformed digits after training on centred ones (affNIST)."""

from equigeo._deprecation import Renamed, renamed
from equigeo.tasks.affnist.cli import AffNISTClassification
from equigeo.tasks.affnist.config import IMAGE_RECIPES, ImageConfig
from equigeo.tasks.affnist.data import Digits
from equigeo.tasks.affnist.evaluate import IMAGE_TESTS as _IMAGE_TESTS
from equigeo.tasks.affnist.evaluate import ImageEvaluation as _ImageEvaluation
from equigeo.tasks.affnist.evaluate import evaluate_image_classifier
from equigeo.tasks.affnist.logits import logit_change
from equigeo.tasks.affnist.models import IMAGE_MODELS as _IMAGE_MODELS
from equigeo.tasks.affnist.models import PlainCNN, PlainCNNConfig
from equigeo.tasks.affnist.trained import TrainedImageClassifier

__all__ = [
    "IMAGE_RECIPES",
    "AffNISTClassification",
    "Digits",
    "ImageConfig",
    "PlainCNN",
    "PlainCNNConfig",
    "TrainedImageClassifier",
    "evaluate_image_classifier",
    "logit_change",
]


def __dir__() -> list[str]:
    return __all__


_PRIVATE = {
    "IMAGE_MODELS": ("TrainedImageClassifier", _IMAGE_MODELS),
    "IMAGE_TESTS": ("evaluate_image_classifier", _IMAGE_TESTS),
    "ImageEvaluation": ("evaluate_image_classifier", _ImageEvaluation),
}
__getattr__ = renamed(
    __name__, {old: Renamed(new, "0.3", private) for old, (new, private) in _PRIVATE.items()}
)
