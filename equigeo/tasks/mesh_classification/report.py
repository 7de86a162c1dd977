"""Data of a classification report."""

from __future__ import annotations

from typing import Any

from equigeo.datasets import MeshDataset
from equigeo.tasks.evaluation_output import number_trained_on, run_facts
from equigeo.tasks.hold_out import evaluated_part
from equigeo.tasks.measures.shape_geometry import LARGEST_SHOWN, shape_geometry
from equigeo.tasks.mesh_classification.config import MeshConfig
from equigeo.tasks.mesh_classification.evaluate import MeshEvaluation
from equigeo.tasks.mesh_classification.trained import TrainedMeshClassifier, TrainedMeshModel

_SHOWN = 6  # shapes, which fill two rows of a wide window


def summarize_run(
    classifier: TrainedMeshClassifier,
    evaluation: MeshEvaluation,
    dataset: MeshDataset,
    command: str,
    config: MeshConfig | None = None,
) -> dict[str, Any]:
    """Collect the input of ``equigeo.report.render_report``, as JSON types."""
    config = config or classifier.config
    number = len(evaluation.labels)
    correct = sum(evaluation.confusion[i][i] for i in range(len(evaluation.classes)))
    facts = [("accuracy", f"{evaluation.accuracy:.2%} ({correct} of {number} meshes)")]
    if evaluation.unfamiliar is not None:
        count = f"{len(evaluation.unfamiliar)} of {number} meshes"
        facts.append(("resemble nothing it was trained on", count))
    facts.append(("data", f"{config.data}, split {config.split}, draw {config.split_index}"))
    if config.holdout:
        unit = "meshes" if dataset.groups is None else "groups of meshes"
        facts.append(("held out for validation", f"{config.holdout} {unit} per class"))
    return {
        "title": "Mesh classification",
        "lead": "A primal-dual mesh network, its training and its evaluation.",
        "command": command,
        **mesh_run_summary(classifier, config, facts, evaluation),
        **evaluation.to_dict(),
        "shapes": _shapes(classifier, evaluation, dataset),
    }


def mesh_run_summary(
    trained: TrainedMeshModel[Any],
    config: Any,  # of the evaluated data, with a preset
    facts: list[tuple[str, str]],  # on results and data
    evaluation: Any,  # with `names` and `trained_on`
) -> dict[str, Any]:
    """Return the facts on a run of a mesh network and its history."""
    seen = number_trained_on(evaluation.trained_on, len(evaluation.names), "meshes")
    of_run = run_facts(trained, config, f"{config.preset} preset")
    return {
        "facts": [*facts, ("trained on", seen), *of_run],
        "history": trained.history,
        "evaluated_part": evaluated_part(trained.config),
    }


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
