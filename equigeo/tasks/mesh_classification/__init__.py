"""Classification of triangle meshes: SHREC'11, built-in shapes, or folders in MeshCNN's layout."""

from equigeo.tasks.mesh_classification.cli import MeshClassification
from equigeo.tasks.mesh_classification.config import MESH_RECIPES, MeshConfig
from equigeo.tasks.mesh_classification.data import BUILTIN, load_meshes, split_meshes
from equigeo.tasks.mesh_classification.evaluate import MeshEvaluation, evaluate_mesh_classifier
from equigeo.tasks.mesh_classification.random_copy import MESH_COPIES, random_copy
from equigeo.tasks.mesh_classification.report import summarize_run
from equigeo.tasks.mesh_classification.trained import TrainedMeshClassifier, classify_file

__all__ = [
    "BUILTIN",
    "MESH_COPIES",
    "MESH_RECIPES",
    "MeshClassification",
    "MeshConfig",
    "MeshEvaluation",
    "TrainedMeshClassifier",
    "classify_file",
    "evaluate_mesh_classifier",
    "load_meshes",
    "random_copy",
    "split_meshes",
    "summarize_run",
]


def __dir__() -> list[str]:
    return __all__
