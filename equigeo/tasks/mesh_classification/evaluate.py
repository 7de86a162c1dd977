"""Evaluation of mesh classifiers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo._brief import brief_fields
from equigeo.datasets import MeshDataset
from equigeo.tasks.measures.classification import accuracy, confusion_matrix
from equigeo.tasks.measures.copy_result import CopyResult
from equigeo.tasks.mesh_classification.data import mesh_digests
from equigeo.tasks.mesh_classification.random_copy import MESH_COPIES, random_copies
from equigeo.tasks.mesh_classification.trained import TrainedMeshClassifier, TrainedMeshModel


@dataclass(frozen=True)
class MeshEvaluation:
    """Predictions on labelled meshes and on transformed copies."""

    classes: list[str]
    names: list[str]
    labels: list[int]
    predictions: list[int]
    confidences: list[float]  # probability of the predicted class
    confusion: list[list[int]]  # meshes by true class (row) and predicted class (column)
    accuracy: float
    copies: list[CopyResult]  # one per kind of copy
    novelties: list[float] | None = None  # see `TrainedMeshModel.novelties`
    trained_on: int | None = None  # number of training meshes; None if not recorded

    __repr__ = brief_fields

    @property
    def unfamiliar(self) -> list[str] | None:
        """Names of the meshes that are novel to the classifier."""
        if self.novelties is None:
            return None
        pairs = zip(self.names, self.novelties, strict=True)
        return [name for name, novelty in pairs if novelty > 1]

    def to_dict(self) -> dict[str, Any]:
        """Convert to nested dictionaries of JSON types."""
        return asdict(self)


def evaluate_mesh_classifier(
    classifier: TrainedMeshClassifier, dataset: MeshDataset, indices: Tensor, seed: int = 0
) -> MeshEvaluation:
    """Classify meshes of a data set, and copies of each that are determined by ``seed``.

    Classes of the data must be known to the classifier, in any order.

    Examples
    --------
    >>> from equigeo.mesh import PrimalDualClassifier, TriangleMesh
    >>> from equigeo.tasks.mesh_classification import MeshConfig
    >>> faces = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> meshes = tuple(TriangleMesh(torch.eye(4, 3) * size, faces) for size in (1, 2))
    >>> data = MeshDataset(
    ...     meshes, torch.tensor([0, 1]), ("low", "high"), ("a", "b"), torch.tensor([True, False])
    ... )
    >>> model = PrimalDualClassifier.preset("default", num_classes=2).eval()  # not trained
    >>> trained = TrainedMeshClassifier(model, data.classes, MeshConfig("memory"), "0.2.0")
    >>> evaluation = evaluate_mesh_classifier(trained, data, torch.tensor([1]))
    >>> evaluation.names, evaluation.copies[0].kind, evaluation.copies[0].changed  # it is invariant
    (['b'], 'rotated', [])
    """
    if len(indices) == 0:
        raise ValueError("the evaluated part of the data has no meshes; choose another split")
    labels = class_positions(classifier, dataset, "classes")[dataset.labels][indices]
    chosen = indices.tolist()
    meshes, names = [dataset.meshes[i] for i in chosen], [dataset.names[i] for i in chosen]
    # in double precision, so that differences between copies are those of the model
    probabilities = classifier.logits(meshes).double().softmax(dim=1)
    predictions = probabilities.argmax(dim=1)
    confusion = confusion_matrix(labels, predictions, len(classifier.classes))
    copies = []
    for kind in MESH_COPIES:
        moved = random_copies(meshes, kind, seed, chosen)
        seen = classifier.logits(moved).double().softmax(dim=1)
        copies.append(CopyResult.compare(kind, seen, probabilities, labels, names))
    return MeshEvaluation(
        classes=list(classifier.classes),
        names=names,
        labels=labels.tolist(),
        predictions=predictions.tolist(),
        confidences=probabilities.amax(dim=1).tolist(),
        confusion=confusion.tolist(),
        accuracy=accuracy(probabilities, labels),
        copies=copies,
        novelties=classifier.novelties(meshes),
        trained_on=classifier.trained_on(mesh_digests(meshes)),
    )


def class_positions(
    trained: TrainedMeshModel[Any],
    dataset: Any,  # with `classes`
    noun: str,  # what the classes are called in messages
) -> Tensor:
    """Return the position of each class of a data set among those of a model, (classes,)."""
    unknown = [name for name in dataset.classes if name not in trained.classes]
    if unknown:
        raise ValueError(
            f"the data have {noun} that the checkpoint does not know: {', '.join(unknown)}; "
            f"evaluate on data with the {noun} of the training"
        )
    return torch.tensor([trained.classes.index(name) for name in dataset.classes])
