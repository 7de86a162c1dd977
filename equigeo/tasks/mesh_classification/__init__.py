"""Classification of triangle meshes: SHREC'11, built-in shapes, or folders in MeshCNN's layout."""

from equigeo._core.deprecation import private_names, renamed
from equigeo.tasks.common.mesh_data import BUILTIN
from equigeo.tasks.mesh_classification.run import (
    MESH_RECIPES,
    MeshConfig,
    TrainedMeshClassifier,
    load_meshes,
    split_meshes,
)
from equigeo.tasks.mesh_classification.task import (
    MeshClassification,
    evaluate_mesh_classifier,
    random_copy,
)

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
__dir__ = __all__.copy


_PRIVATE = {
    "MESH_COPIES": ("equigeo.tasks.mesh_classification.task", "random_copy"),
    "MeshEvaluation": ("equigeo.tasks.mesh_classification.task", "evaluate_mesh_classifier"),
    "classify_file": ("equigeo.tasks.mesh_classification.task", "MeshClassification.predict"),
    "summarize_run": ("equigeo.tasks.mesh_classification.task", "MeshClassification.evaluate"),
}
__getattr__ = renamed(__name__, private_names("0.3", _PRIVATE))
