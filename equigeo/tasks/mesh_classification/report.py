"""Data of a classification report."""

from __future__ import annotations

import platform
from typing import Any

import torch

import equigeo
from equigeo.datasets import MeshDataset
from equigeo.tasks.evaluation_output import describe_trained_on
from equigeo.tasks.hold_out import evaluated_part
from equigeo.tasks.measures.shape_geometry import LARGEST_SHOWN, shape_geometry
from equigeo.tasks.mesh_classification.config import MeshConfig
from equigeo.tasks.mesh_classification.evaluate import MeshEvaluation
from equigeo.tasks.mesh_classification.trained import TrainedMeshClassifier

_SHOWN = 6  # shapes, which fill two rows of a wide window


def summarize_run(
    classifier: TrainedMeshClassifier,
    evaluation: MeshEvaluation,
    dataset: MeshDataset,
    command: str,
    config: MeshConfig | None = None,
) -> dict[str, Any]:
    """Collect the input of ``equigeo.report.render_report``, as JSON types.

    Parameters
    ----------
    classifier : TrainedMeshClassifier
        What was evaluated.
    evaluation : MeshEvaluation
        Its results on meshes of ``dataset``.
    dataset : MeshDataset
        For the geometry of the shapes to show.
    command : str
        What made the results.
    config : MeshConfig, optional
        What says which data were evaluated; by default that of the training.

    Examples
    --------
    >>> from equigeo.mesh import PrimalDualClassifier, TriangleMesh
    >>> from equigeo.tasks.mesh_classification import MeshConfig, evaluate_mesh_classifier
    >>> faces = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> mesh, in_train = TriangleMesh(torch.eye(4, 3), faces), torch.tensor([False])
    >>> data = MeshDataset((mesh,), torch.tensor([0]), ("corner",), ("a",), in_train)
    >>> model = PrimalDualClassifier.preset("default", num_classes=1).eval()  # not trained
    >>> trained = TrainedMeshClassifier(model, data.classes, MeshConfig("memory"), "0.2.0")
    >>> evaluation = evaluate_mesh_classifier(trained, data, torch.tensor([0]))
    >>> summary = summarize_run(trained, evaluation, data, "equigeo evaluate model.ckpt")
    >>> summary["facts"][0], len(summary["shapes"])
    (('accuracy', '100.00% (1 of 1 meshes)'), 1)
    """
    config = config or classifier.config
    unit = "meshes" if dataset.groups is None else "groups of meshes"
    correct = sum(evaluation.confusion[i][i] for i in range(len(evaluation.classes)))
    parameters = sum(p.numel() for p in classifier.model.parameters())
    seconds = sum(line["seconds"] for line in classifier.history)
    facts = [
        ("accuracy", f"{evaluation.accuracy:.2%} ({correct} of {len(evaluation.labels)} meshes)"),
        ("data", f"{config.data}, split {config.split}, draw {config.split_index}"),
        ("held out for validation", f"{config.holdout} {unit} per class"),
        ("trained on", _trained_on(evaluation)),
        ("model", f"{config.preset} preset, {parameters:,} parameters"),
        ("training", f"{len(classifier.history)} epochs, {seconds:.0f} s, seed {config.seed}"),
        ("recipe", ", ".join(f"{k} {v}" for k, v in config.to_dict()["recipe"].items())),
        (
            "versions",
            f"trained by equigeo {classifier.version}; evaluated by {equigeo.__version__}, "
            f"torch {torch.__version__}, Python {platform.python_version()}",
        ),
    ]
    unfamiliar = evaluation.unfamiliar
    if unfamiliar is not None:
        count = f"{len(unfamiliar)} of {len(evaluation.names)} meshes"
        facts.insert(1, ("resemble nothing it was trained on", count))
    return {
        "title": "Mesh classification",
        "lead": "A primal-dual mesh network, its training and its evaluation.",
        "command": command,
        "facts": [fact for fact in facts if fact[0] != "held out for validation" or config.holdout],
        "history": classifier.history,
        "evaluated_part": evaluated_part(classifier.config),
        **evaluation.to_dict(),
        "shapes": _shapes(classifier, evaluation, dataset),
    }


def _trained_on(evaluation: MeshEvaluation) -> str:
    """Return how many of the evaluated meshes are in the training data."""
    text = describe_trained_on(evaluation.trained_on, len(evaluation.names), "meshes", allowed=True)
    return text.partition(": ")[2]


def _shapes(
    classifier: TrainedMeshClassifier, evaluation: MeshEvaluation, dataset: MeshDataset
) -> list[dict[str, Any]]:
    """Return geometry and clusters of a few shapes, misclassified ones first."""
    position = {name: i for i, name in enumerate(dataset.names)}
    shapes = []
    for i in _choose(evaluation):
        mesh = dataset.meshes[position[evaluation.names[i]]]
        if mesh.num_faces > LARGEST_SHOWN:
            continue
        seen = {
            "label": evaluation.classes[evaluation.labels[i]],
            "prediction": evaluation.classes[evaluation.predictions[i]],
            "probability": evaluation.confidences[i],
            "unfamiliar": evaluation.novelties is not None and evaluation.novelties[i] > 1,
        }
        shapes.append(shape_geometry(classifier.model, evaluation.names[i], mesh) | seen)
    return shapes


def _choose(evaluation: MeshEvaluation) -> list[int]:
    """Choose misclassified meshes, most confident first, then one of each class, evenly spread."""
    wrong: list[int] = []
    right: dict[int, int] = {}
    for i, (label, seen) in enumerate(zip(evaluation.labels, evaluation.predictions, strict=True)):
        if label != seen:
            wrong.append(i)
        else:
            right.setdefault(label, i)
    chosen = sorted(wrong, key=lambda i: -evaluation.confidences[i])[:_SHOWN]
    free = _SHOWN - len(chosen)
    candidates = list(right.values())
    # classes at even distances, not the first ones of the alphabet
    stride = max(1, len(candidates) // free) if free else 1
    return chosen + candidates[::stride][:free]
