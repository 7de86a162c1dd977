"""Classification of point clouds in any pose after training on upright ones (ModelNet10)."""

from equigeo._core.deprecation import Renamed, renamed
from equigeo.tasks.pointcloud.run import (
    POINT_MODELS,
    POINT_PRESETS,
    PointConfig,
    TrainedPointClassifier,
)
from equigeo.tasks.pointcloud.run import PlainPointNet as _PlainPointNet
from equigeo.tasks.pointcloud.run import PointPreset as _PointPreset
from equigeo.tasks.pointcloud.run import load_clouds as _load_clouds
from equigeo.tasks.pointcloud.task import PointCloudClassification, evaluate_point_classifier
from equigeo.tasks.pointcloud.task import PointEvaluation as _PointEvaluation

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
    "PlainPointNet": ("POINT_MODELS", _PlainPointNet),
    "PointEvaluation": ("evaluate_point_classifier", _PointEvaluation),
    "PointPreset": ("PointConfig.of_preset", _PointPreset),
    "load_clouds": ("PointCloudClassification.load", _load_clouds),
}
__getattr__ = renamed(
    __name__, {old: Renamed(new, "0.3", private) for old, (new, private) in _PRIVATE.items()}
)
