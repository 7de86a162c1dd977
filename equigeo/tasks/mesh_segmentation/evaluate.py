"""Evaluation of mesh segmenters."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor

from equigeo._brief import brief_fields
from equigeo.datasets import EdgeLabels, SegmentedMeshDataset
from equigeo.mesh import TriangleMesh
from equigeo.tasks.measures.classification import confusion_matrix
from equigeo.tasks.measures.copy_result import CopyResult
from equigeo.tasks.measures.segmentation import face_share, segmentation_measures
from equigeo.tasks.mesh_classification.data import mesh_digests
from equigeo.tasks.mesh_classification.evaluate import class_positions
from equigeo.tasks.mesh_classification.random_copy import random_copies
from equigeo.tasks.mesh_segmentation.trained import TrainedMeshSegmenter

# Copies with the same order of faces; tests cover renumbering.
SEGMENTED_COPIES: Final = ("rotated", "reflected", "scaled", "translated")


@dataclass(frozen=True)
class SegmentationEvaluation:
    """Predicted parts of labelled faces and of transformed copies."""

    classes: list[str]
    names: list[str]
    accuracies: list[float | None]  # share of correct labelled faces per mesh
    predictions: list[list[int]]  # part of every face
    confusion: list[list[int]]  # faces by true part (row) and predicted part (column)
    measures: dict[str, float]  # values of different measures are not comparable
    copies: list[CopyResult]  # with face accuracy; a mesh has changed if one of its faces has
    trained_on: int | None = None  # number of training meshes; None if not recorded

    __repr__ = brief_fields

    def to_dict(self) -> dict[str, Any]:
        """Convert to nested dictionaries of JSON types."""
        return asdict(self)


def evaluate_mesh_segmenter(
    segmenter: TrainedMeshSegmenter,
    dataset: SegmentedMeshDataset,
    indices: Tensor,
    seed: int = 0,
) -> SegmentationEvaluation:
    """Segment meshes of a data set, and copies of each that are determined by ``seed``.

    Parts of the data must be known to the segmenter, in any order.

    Examples
    --------
    >>> from equigeo.mesh import PrimalDualSegmenter
    >>> from equigeo.tasks.mesh_segmentation import SegmentationConfig
    >>> faces = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> mesh, in_train = TriangleMesh(torch.eye(4, 3), faces), torch.tensor([False])
    >>> labels = (torch.tensor([0, 0, 0, 1]),)
    >>> data = SegmentedMeshDataset((mesh,), labels, ("side", "slope"), ("a",), in_train)
    >>> model = PrimalDualSegmenter.preset("default", num_classes=2).eval()  # not trained
    >>> trained = TrainedMeshSegmenter(model, data.classes, SegmentationConfig("memory"), "0.2.0")
    >>> evaluation = evaluate_mesh_segmenter(trained, data, torch.tensor([0]))
    >>> len(evaluation.predictions[0]), [sum(row) for row in evaluation.confusion]
    (4, [3, 1])
    """
    if len(indices) == 0:
        raise ValueError("the evaluated part of the data has no meshes; choose another split")
    dataset = _in_terms_of(segmenter, dataset)
    chosen = indices.tolist()
    known = [dataset.labels[i] for i in chosen]
    meshes, names = [dataset.meshes[i] for i in chosen], [dataset.names[i] for i in chosen]
    probabilities = _probabilities(segmenter, meshes)
    predictions = [part.argmax(dim=1) for part in probabilities]
    copies = []
    for kind in SEGMENTED_COPIES:
        seen = _probabilities(segmenter, random_copies(meshes, kind, seed, chosen))
        copies.append(_compare(kind, seen, probabilities, known, names))
    labelled = [labels >= 0 for labels in known]
    counts = confusion_matrix(
        torch.cat([row[mask] for row, mask in zip(known, labelled, strict=True)]),
        torch.cat([row[mask] for row, mask in zip(predictions, labelled, strict=True)]),
        len(segmenter.classes),
    )
    return SegmentationEvaluation(
        classes=list(segmenter.classes),
        names=names,
        accuracies=[face_share(seen, part) for seen, part in zip(predictions, known, strict=True)],
        predictions=[part.tolist() for part in predictions],
        confusion=counts.tolist(),
        measures=segmentation_measures(dataset, chosen, predictions),
        copies=copies,
        trained_on=segmenter.trained_on(mesh_digests(meshes)),
    )


def _probabilities(segmenter: TrainedMeshSegmenter, meshes: list[TriangleMesh]) -> list[Tensor]:
    """Segment in float64, so that rounding does not affect the comparison of copies."""
    return [logits.double().softmax(dim=1) for logits in segmenter.logits(meshes)]


def _compare(
    kind: str,
    seen: list[Tensor],
    original: list[Tensor],
    known: list[Tensor],
    names: list[str],
) -> CopyResult:
    """Compare copies of meshes with their originals per face."""
    parts = [copy.argmax(dim=1) for copy in seen]
    before = [row.argmax(dim=1) for row in original]
    accuracy = face_share(torch.cat(parts), torch.cat(known))
    differences = [(a - b).abs().max().item() for a, b in zip(seen, original, strict=True)]
    return CopyResult(
        kind=kind,
        accuracy=0.0 if accuracy is None else accuracy,  # an evaluation of no labels is refused
        changed=[
            name
            for name, part, was in zip(names, parts, before, strict=True)
            if not torch.equal(part, was)
        ],
        largest_difference=max(differences),
    )


def _in_terms_of(
    segmenter: TrainedMeshSegmenter, dataset: SegmentedMeshDataset
) -> SegmentedMeshDataset:
    """Convert labels of a data set to the part indices of the segmenter."""
    number = class_positions(segmenter, dataset, "parts")

    def renumber(labels: Tensor) -> Tensor:
        return torch.where(labels >= 0, number[labels.clamp_min(0)], labels)

    def spread(soft: Tensor) -> Tensor:
        columns = soft.new_zeros(len(soft), len(segmenter.classes))
        return columns.index_copy(1, number, soft[:, : len(number)])

    edges = [
        EdgeLabels(
            None if one.hard is None else renumber(one.hard),
            None if one.soft is None else spread(one.soft),
            one.ambiguous_faces,
        )
        for one in dataset.edge_labels
    ]
    return replace(
        dataset,
        labels=tuple(renumber(labels) for labels in dataset.labels),
        classes=tuple(segmenter.classes),
        edge_labels=tuple(edges),
    )
