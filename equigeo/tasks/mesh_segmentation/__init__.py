"""Segmentation of triangle meshes: generated animals, COSEG, human bodies, or any folder."""

from equigeo._core.deprecation import private_names, renamed
from equigeo.tasks.mesh_segmentation.task import (
    SEGMENTATION_RECIPES,
    MeshSegmentation,
    SegmentationConfig,
    TrainedMeshSegmenter,
    evaluate_mesh_segmenter,
    split_segmented_meshes,
)

__all__ = [
    "SEGMENTATION_RECIPES",
    "MeshSegmentation",
    "SegmentationConfig",
    "TrainedMeshSegmenter",
    "evaluate_mesh_segmenter",
    "split_segmented_meshes",
]
__dir__ = __all__.copy


_PRIVATE = {
    "SEGMENTED_COPIES": ("equigeo.tasks.mesh_segmentation.task", "evaluate_mesh_segmenter"),
    "SegmentationEvaluation": ("equigeo.tasks.mesh_segmentation.task", "evaluate_mesh_segmenter"),
    "load_segmented_meshes": ("equigeo.tasks.mesh_segmentation.task", "MeshSegmentation.load"),
    "segment_file": ("equigeo.tasks.mesh_segmentation.task", "MeshSegmentation.predict"),
    "summarize_segmentation": ("equigeo.tasks.mesh_segmentation.task", "MeshSegmentation.evaluate"),
}
__getattr__ = renamed(__name__, private_names("0.3", _PRIVATE))
