"""Data of a segmentation report."""

from __future__ import annotations

import platform
from typing import Any

import torch

import equigeo
from equigeo.datasets import SegmentedMeshDataset
from equigeo.tasks.evaluation_output import describe_trained_on
from equigeo.tasks.hold_out import evaluated_part
from equigeo.tasks.measures.segmentation import MESH_FACE_ACCURACY
from equigeo.tasks.measures.shape_geometry import LARGEST_SHOWN, shape_geometry
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
    """Collect the input of ``equigeo.report.render_report``, as JSON types.

    Parameters
    ----------
    segmenter : TrainedMeshSegmenter
        What was evaluated.
    evaluation : SegmentationEvaluation
        Its results on meshes of ``dataset``.
    dataset : SegmentedMeshDataset
        For the geometry and the labels of the shapes to show: those with most errors.
    command : str
        What made the results.
    config : SegmentationConfig, optional
        What says which data were evaluated; by default that of the training.

    Examples
    --------
    >>> from equigeo.mesh import PrimalDualSegmenter, TriangleMesh
    >>> from equigeo.tasks.mesh_segmentation import SegmentationConfig, evaluate_mesh_segmenter
    >>> faces = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> mesh, in_train = TriangleMesh(torch.eye(4, 3), faces), torch.tensor([False])
    >>> labels = (torch.tensor([0, 0, 0, 1]),)
    >>> data = SegmentedMeshDataset((mesh,), labels, ("side", "slope"), ("a",), in_train)
    >>> model = PrimalDualSegmenter.preset("default", num_classes=2).eval()  # not trained
    >>> trained = TrainedMeshSegmenter(model, data.classes, SegmentationConfig("memory"), "0.2.0")
    >>> evaluation = evaluate_mesh_segmenter(trained, data, torch.tensor([0]))
    >>> summary = summarize_segmentation(trained, evaluation, data, "equigeo evaluate model.ckpt")
    >>> summary["title"], summary["samples"], len(summary["shapes"])
    ('Mesh segmentation', 'faces', 1)
    """
    config = config or segmenter.config
    parameters = sum(p.numel() for p in segmenter.model.parameters())
    seconds = sum(line["seconds"] for line in segmenter.history)
    facts = [(name, f"{value:.2%}") for name, value in evaluation.measures.items()]
    facts += [
        ("data", config.data),
        ("held out for validation", f"{config.holdout} training meshes"),
        ("meshes", str(len(evaluation.names))),
        ("trained on", _trained_on(evaluation)),
        ("model", f"{config.preset} preset, {parameters:,} parameters"),
        ("training", f"{len(segmenter.history)} epochs, {seconds:.0f} s, seed {config.seed}"),
        ("recipe", ", ".join(f"{k} {v}" for k, v in config.to_dict()["recipe"].items())),
        (
            "versions",
            f"trained by equigeo {segmenter.version}; evaluated by {equigeo.__version__}, "
            f"torch {torch.__version__}, Python {platform.python_version()}",
        ),
    ]
    return {
        "title": "Mesh segmentation",
        "lead": "A primal-dual mesh network that tells the parts of shapes.",
        "command": command,
        "facts": [fact for fact in facts if fact[0] != "held out for validation" or config.holdout],
        "history": segmenter.history,
        "evaluated_part": evaluated_part(segmenter.config),
        "measure": MESH_FACE_ACCURACY,
        "classes": evaluation.classes,
        "confusion": evaluation.confusion,
        "samples": "faces",
        "copies": evaluation.to_dict()["copies"],
        "shapes": _shapes(segmenter, evaluation, dataset),
    }


def _trained_on(evaluation: SegmentationEvaluation) -> str:
    """Return how many of the evaluated meshes are in the training data."""
    text = describe_trained_on(evaluation.trained_on, len(evaluation.names), "meshes", allowed=True)
    return text.partition(": ")[2]


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
