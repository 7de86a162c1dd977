"""Tasks: configuration, data, training and evaluation of each kind of model.

``TASKS`` lists one ``Task`` object per kind; the command line offers these.
"""

from typing import Any, Final

from equigeo.tasks.affnist import AffNISTClassification
from equigeo.tasks.evaluation_output import EvaluationOutput
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.mesh_classification import MeshClassification
from equigeo.tasks.mesh_segmentation import MeshSegmentation
from equigeo.tasks.pointcloud import PointCloudClassification
from equigeo.tasks.potential import InteratomicPotential
from equigeo.tasks.task import Task, find_task
from equigeo.tasks.tsp import TravellingSalesman
from equigeo.training.exit_on_sigterm import exit_on_sigterm
from equigeo.training.files.read_config import read_json
from equigeo.training.loop.chosen_device import training_on
from equigeo.training.loop.log_history import LOGGERS, log_history
from equigeo.training.loop.time_limit import time_limit

TASKS: Final[tuple[Task[Any, Any, Any], ...]] = (
    MeshClassification(),
    MeshSegmentation(),
    AffNISTClassification(),
    PointCloudClassification(),
    TravellingSalesman(),
    InteratomicPotential(),
)

__all__ = [
    "LOGGERS",
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
    "exit_on_sigterm",
    "find_task",
    "log_history",
    "read_json",
    "time_limit",
    "training_on",
]


def __dir__() -> list[str]:
    return __all__
