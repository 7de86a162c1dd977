"""Segmentation of triangle meshes: generated animals, COSEG, human bodies, or any folder."""

from equigeo.tasks.mesh_segmentation.cli import MeshSegmentation
from equigeo.tasks.mesh_segmentation.config import SEGMENTATION_RECIPES, SegmentationConfig
from equigeo.tasks.mesh_segmentation.data import load_segmented_meshes, split_segmented_meshes
from equigeo.tasks.mesh_segmentation.evaluate import (
    SEGMENTED_COPIES,
    SegmentationEvaluation,
    evaluate_mesh_segmenter,
)
from equigeo.tasks.mesh_segmentation.report import summarize_segmentation
from equigeo.tasks.mesh_segmentation.trained import TrainedMeshSegmenter, segment_file

__all__ = [
    "SEGMENTATION_RECIPES",
    "SEGMENTED_COPIES",
    "MeshSegmentation",
    "SegmentationConfig",
    "SegmentationEvaluation",
    "TrainedMeshSegmenter",
    "evaluate_mesh_segmenter",
    "load_segmented_meshes",
    "segment_file",
    "split_segmented_meshes",
    "summarize_segmentation",
]


def __dir__() -> list[str]:
    return __all__
