"""Tasks: configuration, data, training and evaluation of each kind of model.

``TASKS`` lists one ``Task`` object per kind; the command line offers these.
"""

from typing import Any, Final

from equigeo._core.deprecation import private_names, renamed
from equigeo.tasks.affnist import AffNISTClassification
from equigeo.tasks.mesh_classification import MeshClassification
from equigeo.tasks.mesh_dynamics import MeshDynamics
from equigeo.tasks.mesh_regression import MeshRegression
from equigeo.tasks.mesh_segmentation import MeshSegmentation
from equigeo.tasks.pointcloud import PointCloudClassification
from equigeo.tasks.potential import InteratomicPotential
from equigeo.tasks.task import EvaluationOutput, FilePrediction, Task, find_task
from equigeo.tasks.tsp import TravellingSalesman

TASKS: Final[tuple[Task[Any, Any, Any], ...]] = (
    MeshClassification(),
    MeshSegmentation(),
    MeshRegression(),
    MeshDynamics(),
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
    "MeshDynamics",
    "MeshRegression",
    "MeshSegmentation",
    "PointCloudClassification",
    "Task",
    "TravellingSalesman",
    "find_task",
]
__dir__ = __all__.copy


_PRIVATE = {
    "LOGGERS": ("equigeo.training.loop.session", "equigeo.training.log_history"),
    "exit_on_sigterm": ("equigeo.training.process", "equigeo.training.exit_on_sigterm"),
    "log_history": ("equigeo.training.loop.session", "equigeo.training.log_history"),
    "read_json": ("equigeo.training.run_folder", "json.load"),
    "time_limit": ("equigeo.training.loop.session", "equigeo.training.time_limit"),
    "training_on": ("equigeo.training.process", "equigeo train --device"),
}
__getattr__ = renamed(__name__, private_names("0.3", _PRIVATE))
