"""Evaluation and command-line task of mesh segmentation."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from equigeo._core.text import printable
from equigeo.datasets import EdgeLabels, SegmentedMeshDataset
from equigeo.mesh import PrimalDualSegmenter, TriangleMesh
from equigeo.tasks.common.arguments import Argument, class_table, copies_table, natural
from equigeo.tasks.common.classification import confusion_matrix
from equigeo.tasks.common.copies import CopyResult
from equigeo.tasks.common.segmentation import MESH_FACE_ACCURACY, face_share, segmentation_measures
from equigeo.tasks.common.shapes import LARGEST_SHOWN, shape_geometry
from equigeo.tasks.mesh_classification.run import BUILTIN, mesh_digests
from equigeo.tasks.mesh_classification.task import (
    MeshTask,
    class_positions,
    mesh_run_summary,
    random_copies,
)
from equigeo.tasks.mesh_segmentation.run import (
    SegmentationConfig,
    TrainedMeshSegmenter,
    load_segmented_meshes,
    plan_fit,
    segment_file,
    split_segmented_meshes,
)
from equigeo.tasks.task import (
    ALLOW_TRAINED,
    Evaluation,
    EvaluationOutput,
    FilePrediction,
    describe_trained_on,
)
from equigeo.training.plan import FitPlan

# Copies with the same order of faces; tests cover renumbering.
SEGMENTED_COPIES: Final = ("rotated", "reflected", "scaled", "translated")


@dataclass(frozen=True, repr=False)
class SegmentationEvaluation(Evaluation):
    """Predicted parts of labeled faces and of transformed copies."""

    classes: list[str]
    names: list[str]
    accuracies: list[float | None]  # share of correct labeled faces per mesh
    predictions: list[list[int]]  # part of every face
    confusion: list[list[int]]  # faces by true part (row) and predicted part (column)
    measures: dict[str, float]  # values of different measures are not comparable
    copies: list[CopyResult]  # with face accuracy; a mesh has changed if one of its faces has
    trained_on: int | None = None  # number of training meshes; None if not recorded


def evaluate_mesh_segmenter(
    segmenter: TrainedMeshSegmenter, dataset: SegmentedMeshDataset, indices: Tensor, seed: int = 0
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
    kind: str, seen: list[Tensor], original: list[Tensor], known: list[Tensor], names: list[str]
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
    # where nothing is labeled, nothing is wrong
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


class MeshSegmentation(MeshTask[SegmentationConfig, SegmentedMeshDataset, TrainedMeshSegmenter]):
    """Segment triangle meshes with a primal-dual network.

    Examples
    --------
    >>> MeshSegmentation().name
    'mesh-segmentation'
    """

    help = "segment triangle meshes"
    built_in = (BUILTIN,)
    data_remedy = "builtin, a folder or an archive"
    train_arguments = (
        Argument(
            "--data", "the built-in shapes, or a folder or archive {train,test}/<mesh> with"
            " seg/<mesh>.eseg, .seg, .txt or .npy", metavar="builtin|DIR|ARCHIVE",
        ),
        Argument(
            "--holdout",
            "evaluate on N training meshes, held out, and leave the test part unseen",
            natural, metavar="N", unit="training meshes",
        ),
    )  # fmt: skip
    evaluate_arguments = (
        Argument(
            "--data", "default: the training data of the model", metavar="builtin|DIR|ARCHIVE"
        ),
        Argument("--seed", "seed of transformed copies (default: 0)", natural),
        ALLOW_TRAINED,
    )
    measures = {"test_accuracy": f"{{part}} {MESH_FACE_ACCURACY} {{value:.2%}}"}  # noqa: RUF012
    writes_files = True
    written = (".parts.ply", ".parts.html")
    trained_type = TrainedMeshSegmenter

    def load(self, config: SegmentationConfig) -> SegmentedMeshDataset:
        return load_segmented_meshes(config.data)

    def describe(self, config: SegmentationConfig, data: SegmentedMeshDataset) -> str:
        return f"{len(data)} meshes with {data.num_classes} parts, {config.preset} preset"

    def plan(
        self,
        config: SegmentationConfig,
        data: SegmentedMeshDataset,
        model: PrimalDualSegmenter | None = None,
    ) -> FitPlan:
        return plan_fit(config, data, model)

    def evaluate(
        self, trained: TrainedMeshSegmenter, options: argparse.Namespace
    ) -> EvaluationOutput:
        from equigeo.report import render_report  # plotly, which the other commands do without

        config = trained.config
        if options.data not in (None, config.data):
            config = replace(config, data=options.data, holdout=0)
        dataset = load_segmented_meshes(config.data)
        _, test = split_segmented_meshes(dataset, config)
        evaluation = evaluate_mesh_segmenter(trained, dataset, test, options.seed or 0)
        seen = describe_trained_on(
            evaluation.trained_on, len(test), "meshes", allowed=options.allow_trained
        )
        command = options.command_line
        results = summarize_segmentation(trained, evaluation, dataset, command, config)
        text = f"{_text(evaluation)}\n\n{seen}"
        return EvaluationOutput(text, evaluation.to_dict(), render_report(results))

    def predict(
        self, trained: TrainedMeshSegmenter, path: Path, top: int = 1, *, view: bool = False
    ) -> FilePrediction:
        return segment_file(trained, path, top, view=view)


def _text(evaluation: SegmentationEvaluation) -> str:
    lines = [class_table(evaluation.classes, evaluation.confusion, "faces"), ""]
    width = max(map(len, evaluation.measures))
    lines += [f"{name:<{width}}  {value:.2%}" for name, value in evaluation.measures.items()]
    lines += ["", copies_table(evaluation.copies)]
    for copy in evaluation.copies:
        lines += [f"changed when {copy.kind}: {printable(name)}" for name in copy.changed]
    return "\n".join(lines)
