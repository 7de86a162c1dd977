"""Classification of affinely transformed digits after training on centred ones (affNIST)."""

from equigeo._core.deprecation import Renamed, renamed
from equigeo.tasks.affnist.run import IMAGE_MODELS as _IMAGE_MODELS
from equigeo.tasks.affnist.run import (
    IMAGE_RECIPES,
    Digits,
    ImageConfig,
    PlainCNN,
    PlainCNNConfig,
    TrainedImageClassifier,
    logit_change,
)
from equigeo.tasks.affnist.task import IMAGE_TESTS as _IMAGE_TESTS
from equigeo.tasks.affnist.task import AffNISTClassification, evaluate_image_classifier
from equigeo.tasks.affnist.task import ImageEvaluation as _ImageEvaluation

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
