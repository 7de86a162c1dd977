"""Classification of triangle meshes: SHREC'11, built-in shapes, or folders in MeshCNN's layout."""

from equigeo._core.deprecation import Renamed, renamed
from equigeo.tasks.mesh_classification.run import (
    BUILTIN,
    MESH_RECIPES,
    MeshConfig,
    TrainedMeshClassifier,
    load_meshes,
    split_meshes,
)
from equigeo.tasks.mesh_classification.run import classify_file as _classify_file
from equigeo.tasks.mesh_classification.task import MESH_COPIES as _MESH_COPIES
from equigeo.tasks.mesh_classification.task import (
    MeshClassification,
    evaluate_mesh_classifier,
    random_copy,
)
from equigeo.tasks.mesh_classification.task import MeshEvaluation as _MeshEvaluation
from equigeo.tasks.mesh_classification.task import summarize_run as _summarize_run

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
