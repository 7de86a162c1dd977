"""Classification of point clouds in any pose after training on upright ones (ModelNet10)."""

from equigeo._deprecation import Renamed, renamed
from equigeo.tasks.pointcloud.cli import PointCloudClassification
from equigeo.tasks.pointcloud.config import POINT_PRESETS, PointConfig
from equigeo.tasks.pointcloud.config import PointPreset as _PointPreset
from equigeo.tasks.pointcloud.data import load_clouds as _load_clouds
from equigeo.tasks.pointcloud.evaluate import PointEvaluation as _PointEvaluation
from equigeo.tasks.pointcloud.evaluate import evaluate_point_classifier
from equigeo.tasks.pointcloud.models import POINT_MODELS
from equigeo.tasks.pointcloud.models import PlainPointNet as _PlainPointNet
from equigeo.tasks.pointcloud.trained import TrainedPointClassifier

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
