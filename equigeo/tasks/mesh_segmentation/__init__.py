"""Segmentation of triangle meshes: generated animals, COSEG, human bodies, or any folder."""

from equigeo._core.deprecation import Renamed, renamed
from equigeo.tasks.mesh_segmentation.run import (
    SEGMENTATION_RECIPES,
    SegmentationConfig,
    TrainedMeshSegmenter,
    split_segmented_meshes,
)
from equigeo.tasks.mesh_segmentation.run import load_segmented_meshes as _load_segmented_meshes
from equigeo.tasks.mesh_segmentation.run import segment_file as _segment_file
from equigeo.tasks.mesh_segmentation.task import SEGMENTED_COPIES as _SEGMENTED_COPIES
from equigeo.tasks.mesh_segmentation.task import MeshSegmentation, evaluate_mesh_segmenter
from equigeo.tasks.mesh_segmentation.task import SegmentationEvaluation as _SegmentationEvaluation
from equigeo.tasks.mesh_segmentation.task import summarize_segmentation as _summarize_segmentation

__all__ = [
    "SEGMENTATION_RECIPES",
    "MeshSegmentation",
    "SegmentationConfig",
    "TrainedMeshSegmenter",
    "evaluate_mesh_segmenter",
    "split_segmented_meshes",
]


def __dir__() -> list[str]:
    return __all__


_PRIVATE = {
    "SEGMENTED_COPIES": ("evaluate_mesh_segmenter", _SEGMENTED_COPIES),
    "SegmentationEvaluation": ("evaluate_mesh_segmenter", _SegmentationEvaluation),
    "load_segmented_meshes": ("MeshSegmentation.load", _load_segmented_meshes),
    "segment_file": ("MeshSegmentation.predict", _segment_file),
    "summarize_segmentation": ("MeshSegmentation.evaluate", _summarize_segmentation),
}
__getattr__ = renamed(
    __name__, {old: Renamed(new, "0.3", private) for old, (new, private) in _PRIVATE.items()}
)
