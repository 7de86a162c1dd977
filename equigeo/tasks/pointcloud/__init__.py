"""Classification of point clouds in any pose after training on upright ones (ModelNet10)."""

from equigeo._core.deprecation import private_names, renamed
from equigeo.tasks.pointcloud.task import (
    POINT_MODELS,
    POINT_PRESETS,
    PointCloudClassification,
    PointConfig,
    TrainedPointClassifier,
    evaluate_point_classifier,
)

__all__ = [
    "POINT_MODELS",
    "POINT_PRESETS",
    "PointCloudClassification",
    "PointConfig",
    "TrainedPointClassifier",
    "evaluate_point_classifier",
]
__dir__ = __all__.copy


_PRIVATE = {
    "PlainPointNet": ("equigeo.tasks.pointcloud.task", "POINT_MODELS"),
    "PointEvaluation": ("equigeo.tasks.pointcloud.task", "evaluate_point_classifier"),
    "PointPreset": ("equigeo.tasks.pointcloud.task", "PointConfig.of_preset"),
    "load_clouds": ("equigeo.tasks.pointcloud.task", "PointCloudClassification.load"),
}
__getattr__ = renamed(__name__, private_names("0.3", _PRIVATE))
