"""Classification of point clouds in any pose after training on upright ones (ModelNet10)."""

from equigeo._core.deprecation import private_names, renamed
from equigeo.tasks.pointcloud.run import (
    POINT_MODELS,
    POINT_PRESETS,
    PointConfig,
    TrainedPointClassifier,
)
from equigeo.tasks.pointcloud.task import PointCloudClassification, evaluate_point_classifier

__all__ = [
    "POINT_MODELS",
    "POINT_PRESETS",
    "PointCloudClassification",
    "PointConfig",
    "TrainedPointClassifier",
    "evaluate_point_classifier",
]


def __dir__() -> list[str]:
    return __all__


_PRIVATE = {
    "PlainPointNet": ("equigeo.tasks.pointcloud.run", "POINT_MODELS"),
    "PointEvaluation": ("equigeo.tasks.pointcloud.task", "evaluate_point_classifier"),
    "PointPreset": ("equigeo.tasks.pointcloud.run", "PointConfig.of_preset"),
    "load_clouds": ("equigeo.tasks.pointcloud.run", "PointCloudClassification.load"),
}
__getattr__ = renamed(__name__, private_names("0.3", _PRIVATE))
