"""Classification of affinely transformed digits after training on centered ones (affNIST)."""

from equigeo._core.deprecation import private_names, renamed
from equigeo.tasks.affnist.task import (
    IMAGE_RECIPES,
    AffNISTClassification,
    Digits,
    ImageConfig,
    PlainCNN,
    PlainCNNConfig,
    TrainedImageClassifier,
    evaluate_image_classifier,
    logit_change,
)

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
__dir__ = __all__.copy


_PRIVATE = {
    "IMAGE_MODELS": ("equigeo.tasks.affnist.task", "TrainedImageClassifier"),
    "IMAGE_TESTS": ("equigeo.tasks.affnist.task", "evaluate_image_classifier"),
    "ImageEvaluation": ("equigeo.tasks.affnist.task", "evaluate_image_classifier"),
}
__getattr__ = renamed(__name__, private_names("0.3", _PRIVATE))
