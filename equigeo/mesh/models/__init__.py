"""Networks over triangle meshes."""

from equigeo.mesh.models.classifier import PrimalDualClassifier
from equigeo.mesh.models.classifier_config import ClassifierConfig
from equigeo.mesh.models.segmenter import PrimalDualSegmenter
from equigeo.mesh.models.segmenter_config import SegmenterConfig

__all__ = [
    "ClassifierConfig",
    "PrimalDualClassifier",
    "PrimalDualSegmenter",
    "SegmenterConfig",
]


def __dir__() -> list[str]:
    return __all__
