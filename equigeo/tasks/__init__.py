"""Tasks: configuration, data, training and evaluation of each kind of model.

``TASKS`` lists one ``Task`` object per kind; the command line offers these.
"""

from typing import Any, Final

from equigeo._core.deprecation import Renamed, renamed
from equigeo.tasks.affnist import AffNISTClassification
from equigeo.tasks.mesh_classification import MeshClassification
from equigeo.tasks.mesh_segmentation import MeshSegmentation
from equigeo.tasks.pointcloud import PointCloudClassification
from equigeo.tasks.potential import InteratomicPotential
from equigeo.tasks.task import EvaluationOutput, FilePrediction, Task, find_task
from equigeo.tasks.tsp import TravellingSalesman
from equigeo.training.files import read_json as _read_json
from equigeo.training.loop.session import LOGGERS as _LOGGERS
from equigeo.training.loop.session import log_history as _log_history
from equigeo.training.loop.session import time_limit as _time_limit
from equigeo.training.process import exit_on_sigterm as _exit_on_sigterm
from equigeo.training.process import training_on as _training_on

TASKS: Final[tuple[Task[Any, Any, Any], ...]] = (
    MeshClassification(),
    MeshSegmentation(),
    AffNISTClassification(),
    PointCloudClassification(),
    TravellingSalesman(),
    InteratomicPotential(),
)

__all__ = [
    "TASKS",
    "AffNISTClassification",
    "EvaluationOutput",
    "FilePrediction",
    "InteratomicPotential",
    "MeshClassification",
    "MeshSegmentation",
    "PointCloudClassification",
    "Task",
    "TravellingSalesman",
    "find_task",
]


def __dir__() -> list[str]:
    return __all__


_PRIVATE = {
    "LOGGERS": ("equigeo.training.log_history", _LOGGERS),
    "exit_on_sigterm": ("equigeo.training.exit_on_sigterm", _exit_on_sigterm),
    "log_history": ("equigeo.training.log_history", _log_history),
    "read_json": ("json.load", _read_json),
    "time_limit": ("equigeo.training.time_limit", _time_limit),
    "training_on": ("equigeo train --device", _training_on),
}
__getattr__ = renamed(
    __name__, {old: Renamed(new, "0.3", private) for old, (new, private) in _PRIVATE.items()}
)
