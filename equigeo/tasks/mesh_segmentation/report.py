"""Data of a segmentation report."""

from __future__ import annotations

from typing import Any

from equigeo.datasets import SegmentedMeshDataset
from equigeo.tasks.measures.segmentation import MESH_FACE_ACCURACY
from equigeo.tasks.measures.shape_geometry import LARGEST_SHOWN, shape_geometry
from equigeo.tasks.mesh_classification.report import mesh_run_summary
from equigeo.tasks.mesh_segmentation.config import SegmentationConfig
from equigeo.tasks.mesh_segmentation.evaluate import SegmentationEvaluation
from equigeo.tasks.mesh_segmentation.trained import TrainedMeshSegmenter

_SHOWN = 6  # shapes, which fill two rows of a wide window


def summarize_segmentation(
    segmenter: TrainedMeshSegmenter,
    evaluation: SegmentationEvaluation,
    dataset: SegmentedMeshDataset,
    command: str,
    config: SegmentationConfig | None = None,
) -> dict[str, Any]:
    """Collect the input of ``equigeo.report.render_report``, as JSON types."""
    config = config or segmenter.config
    facts = [(name, f"{value:.2%}") for name, value in evaluation.measures.items()]
    facts.append(("data", config.data))
    if config.holdout:
        facts.append(("held out for validation", f"{config.holdout} training meshes"))
    facts.append(("meshes", str(len(evaluation.names))))
    return {
        "title": "Mesh segmentation",
        "lead": "A primal-dual network that segments meshes.",
        "command": command,
        **mesh_run_summary(segmenter, config, facts, evaluation),
        "measure": MESH_FACE_ACCURACY,
        "classes": evaluation.classes,
        "confusion": evaluation.confusion,
        "samples": "faces",
        "copies": evaluation.to_dict()["copies"],
        "shapes": _shapes(segmenter, evaluation, dataset),
    }


def _shapes(
    segmenter: TrainedMeshSegmenter,
    evaluation: SegmentationEvaluation,
    dataset: SegmentedMeshDataset,
) -> list[dict[str, Any]]:
    """Return geometry, parts and clusters of the shapes with most errors."""
    position = {name: i for i, name in enumerate(dataset.names)}
    number = [segmenter.classes.index(name) for name in dataset.classes]
    shapes: list[dict[str, Any]] = []
    # where nothing is labelled, nothing is wrong
    shares = [1.0 if share is None else share for share in evaluation.accuracies]
    for k in sorted(range(len(shares)), key=shares.__getitem__):
        i = position[evaluation.names[k]]
        mesh = dataset.meshes[i]
        if mesh.num_faces > LARGEST_SHOWN or len(shapes) == _SHOWN:
            continue
        labels = dataset.labels[i].tolist()
        parts: dict[str, Any] = {
            "predicted_parts": evaluation.predictions[k],
            "labelled_parts": [number[label] if label >= 0 else label for label in labels],
        }
        if evaluation.accuracies[k] is not None:
            parts["accuracy"] = evaluation.accuracies[k]
        shapes.append(shape_geometry(segmenter.model, evaluation.names[k], mesh) | parts)
    return shapes
