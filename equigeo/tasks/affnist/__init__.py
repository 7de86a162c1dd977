"""Classification of affinely transformed digits after training on centered ones (affNIST)."""

from equigeo._core.deprecation import private_names, renamed
from equigeo.tasks.affnist.run import (
    IMAGE_RECIPES,
    Digits,
    ImageConfig,
    PlainCNN,
    PlainCNNConfig,
    TrainedImageClassifier,
    logit_change,
)
from equigeo.tasks.affnist.task import AffNISTClassification, evaluate_image_classifier

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
    "IMAGE_MODELS": ("equigeo.tasks.affnist.run", "TrainedImageClassifier"),
    "IMAGE_TESTS": ("equigeo.tasks.affnist.task", "evaluate_image_classifier"),
    "ImageEvaluation": ("equigeo.tasks.affnist.task", "evaluate_image_classifier"),
}
__getattr__ = renamed(__name__, private_names("0.3", _PRIVATE))
