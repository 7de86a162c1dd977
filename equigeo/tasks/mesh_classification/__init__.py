"""Classification of triangle meshes: SHREC'11, built-in shapes, or folders in MeshCNN's layout."""

from equigeo._deprecation import Renamed, renamed
from equigeo.tasks.mesh_classification.cli import MeshClassification
from equigeo.tasks.mesh_classification.config import MESH_RECIPES, MeshConfig
from equigeo.tasks.mesh_classification.data import BUILTIN, load_meshes, split_meshes
from equigeo.tasks.mesh_classification.evaluate import MeshEvaluation as _MeshEvaluation
from equigeo.tasks.mesh_classification.evaluate import evaluate_mesh_classifier
from equigeo.tasks.mesh_classification.random_copy import MESH_COPIES as _MESH_COPIES
from equigeo.tasks.mesh_classification.random_copy import random_copy
from equigeo.tasks.mesh_classification.report import summarize_run as _summarize_run
from equigeo.tasks.mesh_classification.trained import TrainedMeshClassifier
from equigeo.tasks.mesh_classification.trained import classify_file as _classify_file

__all__ = [
    "BUILTIN",
    "MESH_RECIPES",
    "MeshClassification",
    "MeshConfig",
    "TrainedMeshClassifier",
    "evaluate_mesh_classifier",
    "load_meshes",
    "random_copy",
    "split_meshes",
]


def __dir__() -> list[str]:
    return __all__


_PRIVATE = {
    "MESH_COPIES": ("random_copy", _MESH_COPIES),
    "MeshEvaluation": ("evaluate_mesh_classifier", _MeshEvaluation),
    "classify_file": ("MeshClassification.predict", _classify_file),
    "summarize_run": ("MeshClassification.evaluate", _summarize_run),
}
__getattr__ = renamed(
    __name__, {old: Renamed(new, "0.3", private) for old, (new, private) in _PRIVATE.items()}
)
