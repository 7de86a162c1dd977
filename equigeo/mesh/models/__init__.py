"""Networks over triangle meshes."""

from equigeo.mesh.models.classifier import PrimalDualClassifier
from equigeo.mesh.models.classifier_config import ClassifierConfig

__all__ = ["ClassifierConfig", "PrimalDualClassifier"]


def __dir__() -> list[str]:
    return __all__
