"""Classification of point clouds in any pose after training on upright ones (ModelNet10)."""

from equigeo.tasks.pointcloud.cli import PointCloudClassification
from equigeo.tasks.pointcloud.config import POINT_PRESETS, PointConfig, PointPreset
from equigeo.tasks.pointcloud.data import load_clouds
from equigeo.tasks.pointcloud.evaluate import PointEvaluation, evaluate_point_classifier
from equigeo.tasks.pointcloud.models import POINT_MODELS, PlainPointNet
from equigeo.tasks.pointcloud.trained import TrainedPointClassifier

__all__ = [
    "POINT_MODELS",
    "POINT_PRESETS",
    "PlainPointNet",
    "PointCloudClassification",
    "PointConfig",
    "PointEvaluation",
    "PointPreset",
    "TrainedPointClassifier",
    "evaluate_point_classifier",
    "load_clouds",
]


def __dir__() -> list[str]:
    return __all__
