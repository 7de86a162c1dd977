"""Configuration, data, fit, evaluation and command-line task of mesh segmentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.brief import brief_fields
from equigeo._core.config import Range
from equigeo._core.text import printable
from equigeo.datasets import (
    EdgeLabels,
    MeshRegressionDataset,
    SegmentedMeshDataset,
    articulated_parts,
    load_segmentation_folder,
)
from equigeo.datasets.meshes import parts_of
from equigeo.datasets.segmentation.dataset import UNLABELLED
from equigeo.datasets.segmentation.labels import MAX_LABEL
from equigeo.mesh import LoadReport, PrimalDualGraph, PrimalDualSegmenter, TriangleMesh
from equigeo.mesh.geometry.features import AreaShares
from equigeo.mesh.io.ply import format_ply
from equigeo.mesh.io.read_mesh_file import read_mesh_file
from equigeo.tasks.common.arguments import Argument, class_table, copies_table
from equigeo.tasks.common.measures import (
    MESH_FACE_ACCURACY,
    CopyResult,
    classify,
    confusion_matrix,
    face_share,
    mesh_face_accuracy,
    segmentation_measures,
)
from equigeo.tasks.common.mesh_data import (
    BUILTIN,
    HOLDOUT,
    INPUTS,
    LARGEST_SHOWN,
    LOADING,
    SPLIT,
    VALIDATED,
    MeshRunConfig,
    has_validation,
    shape_geometry,
    split_summary,
    warn_of_lost_area,
)
from equigeo.tasks.mesh_classification.run import (
    PADDING,
    LabelledMeshes,
    Shape,
    TrainedMeshModel,
    mesh_digests,
)
from equigeo.tasks.mesh_classification.task import (
    Fit,
    MeshTask,
    Predicted,
    class_positions,
    mesh_run_summary,
    random_copies,
)
from equigeo.tasks.task import Evaluation
from equigeo.training.config import Recipe
from equigeo.training.data import LabelledBatch
from equigeo.training.objective import CrossEntropy, Objective
from equigeo.training.process import seed_sequence

SEGMENTATION_RECIPES: Final[dict[str, Recipe]] = {
    "default": Recipe(
        epochs=120, batch_size=8, learning_rate=4e-3, optimizer="adamw", schedule="one_cycle",
        weight_decay=0.01, label_smoothing=0.05, resolutions=(0.5,), update_bn=True,
    ),
    # As released with PD-MeshNet: Adam at a constant rate, nothing else.
    "paper": Recipe(
        epochs=1000, batch_size=16, learning_rate=1e-3, optimizer="adam", schedule="constant",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class SegmentationConfig(MeshRunConfig):
    """Configuration of a segmentation run, saved as ``config.json``.

    Parameters
    ----------
    data : str
        ``"builtin"``, or the path of a folder or archive with ``train``, ``test`` and ``seg``.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``.
    merge, min_component
        See ``equigeo.mesh.load_mesh``.
    sizes, inputs
        See ``equigeo.mesh.ClassifierConfig``.
    split : str
        "folder", or the fractions of ``equigeo.datasets.load_mesh_folder``, separated by commas.
    preset : {"default", "paper"}, model and recipe
    holdout : int
        If positive, evaluate on this number of training meshes instead of the test meshes.

    Examples
    --------
    >>> config = SegmentationConfig("builtin", holdout=4)
    >>> SegmentationConfig.from_dict(config.to_dict()) == config
    True
    """

    recipe: Recipe = SEGMENTATION_RECIPES["default"]
    preset: Literal["default", "paper"] = "default"
    holdout: int = 0

    recipes: ClassVar[Mapping[str, Recipe]] = SEGMENTATION_RECIPES
    samples: ClassVar[str] = "meshes with labeled faces"
    unused: ClassVar[tuple[str, ...]] = ("resample",)
    ranges: ClassVar[Mapping[str, Range]] = {**MeshRunConfig.ranges, "holdout": Range(0, 10**6)}


BATCH_SIZE: Final = 16  # meshes that are segmented at once


def load_segmented_meshes(data: str, **loading: Any) -> SegmentedMeshDataset:
    """Load ``"builtin"``, or a folder or archive by ``load_mesh`` with the given arguments."""
    if data == BUILTIN:
        return articulated_parts()
    dataset = load_segmentation_folder(data, **loading)
    warn_of_lost_area(dataset.names, dataset.reports)
    return dataset


def split_segmented_meshes(
    dataset: SegmentedMeshDataset | MeshRegressionDataset,
    config: Any,  # with `holdout`
    *,
    validate: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return increasing positions of the training and of the evaluated meshes.

    With ``holdout``, both are training meshes, split independently of the seed of the run. With
    ``validate``, a validation split of the source replaces its test meshes.

    Examples
    --------
    >>> from equigeo.mesh import TriangleMesh
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> labels, in_train = (torch.tensor([0]),) * 3, torch.tensor([True, True, False])
    >>> dataset = SegmentedMeshDataset((mesh,) * 3, labels, ("part",), tuple("abc"), in_train)
    >>> train, test = split_segmented_meshes(dataset, SegmentationConfig("memory"))
    >>> train.tolist(), test.tolist()
    ([0, 1], [2])
    """
    train, val, test = (part.nonzero().flatten() for part in parts_of(dataset))
    if has_validation(dataset.in_val, config.holdout) and validate:
        test = val
    if config.holdout > 0:
        order = np.random.default_rng(seed_sequence(0, "holdout")).permutation(len(train))
        held = torch.from_numpy(order[: config.holdout]).sort().values
        kept = torch.from_numpy(order[config.holdout :]).sort().values
        train, test = train[kept], train[held]
    for purpose, part in (("train on", train), ("evaluate on", test)):
        if len(part) == 0:
            raise ValueError(
                f"no mesh to {purpose} with holdout {config.holdout}; add meshes or change it"
            )
    return train, test


@dataclass(frozen=True)
class FaceCrossEntropy(Objective):
    """Cross-entropy of face labels, averaged per mesh; meshes without labels do not count."""

    label_smoothing: float = 0.0  # share of the target spread over all parts
    adjustment: tuple[float, ...] = ()  # see `CrossEntropy`, by shares of faces

    __repr__ = brief_fields

    def sums(
        self,
        model: nn.Module,  # returns logits (faces of all meshes, parts)
        batch: LabelledBatch,  # labels (meshes, most faces), padded
    ) -> tuple[Tensor, Tensor]:
        logits = model(batch.inputs)
        faces = batch.labels != PADDING
        labels, mesh = batch.labels[faces], faces.nonzero()[:, 0]
        known = labels != UNLABELLED
        weights = mesh_mean_weights(mesh, known, len(batch.labels)).to(logits.dtype)
        shift = logits.new_tensor(self.adjustment or (0.0,))
        losses = F.cross_entropy(
            logits + shift, labels, ignore_index=UNLABELLED, reduction="none",
            label_smoothing=self.label_smoothing,
        )  # fmt: skip
        right = logits.detach().argmax(dim=1) == labels
        return losses @ weights, right.to(weights.dtype) @ weights

    def counted(self, batch: LabelledBatch) -> int:
        known = (batch.labels != UNLABELLED) & (batch.labels != PADDING)
        return int(known.any(dim=1).sum())


def mesh_mean_weights(
    mesh: Tensor,  # (faces,) mesh of each face
    known: Tensor,  # (faces,) labeled faces
    num_meshes: int,
) -> Tensor:
    """Return weights of faces that turn weighted sums into sums of means over meshes, (faces,)."""
    counts = torch.bincount(mesh[known], minlength=num_meshes).clamp_min(1)
    return known.double() / counts[mesh]


def _evaluate(test: LabelledMeshes, name: str, model: nn.Module) -> dict[str, float]:
    logits = classify(model, (batch.inputs for batch in test.batches(BATCH_SIZE)))
    predictions = logits.argmax(dim=1).split([len(labels) for labels in test.labels])
    found = mesh_face_accuracy(predictions, test.labels)
    return {} if found is None else {name: found}


class TrainedMeshSegmenter(TrainedMeshModel[SegmentationConfig]):
    """Trained mesh segmenter, as ``equigeo evaluate`` and ``predict`` load it."""

    task, what, config_type = "mesh-segmentation", "mesh segmenter", SegmentationConfig
    model_type, batch_size = PrimalDualSegmenter, BATCH_SIZE

    def logits(self, meshes: Sequence[Shape]) -> list[Tensor]:
        """Return logits of every mesh or graph of a mesh, (faces, parts) each.

        Equivariance
        ------------
        Invariant to rotation, reflection, translation and scale, and equivariant to permutations
        of faces and vertices, with the default preset.
        """
        return self.outputs(meshes)


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
        copies.append(CopyResult.compare(kind, seen, probabilities, known, names))
    labels, guessed = torch.cat(known), torch.cat(predictions)
    labelled = labels >= 0
    counts = confusion_matrix(labels[labelled], guessed[labelled], len(segmenter.classes))
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
    train_arguments = (
        Argument(
            "--data", "the built-in shapes, or a folder or archive {train,val,test}/<mesh> with"
            " seg/<mesh>.eseg, .seg, .txt or .npy, or labels in PLY files",
            metavar="builtin|DIR|ARCHIVE",
        ),
        SPLIT, HOLDOUT, *LOADING, *INPUTS,
    )  # fmt: skip
    measures = dict.fromkeys(
        ("test_accuracy", VALIDATED), f"{{part}} {MESH_FACE_ACCURACY} {{value:.2%}}"
    )
    writes_files = True
    written = (".parts.ply", ".parts.html")
    trained_type = TrainedMeshSegmenter

    def load(self, config: SegmentationConfig) -> SegmentedMeshDataset:
        return load_segmented_meshes(config.data, split=config.fractions, **config.loading)

    def describe(self, config: SegmentationConfig, data: SegmentedMeshDataset) -> str:
        about = f"{len(data)} meshes with {data.num_classes} parts, {config.preset} preset"
        return ", ".join(filter(None, (about, split_summary(config, data))))

    def _split(
        self, dataset: SegmentedMeshDataset, config: SegmentationConfig, *, validate: bool = False
    ) -> tuple[Tensor, Tensor]:
        return split_segmented_meshes(dataset, config, validate=validate)

    def _fit(self, config: SegmentationConfig, model: Any, train: LabelledMeshes) -> Fit:
        every = torch.cat(list(train.labels))
        shares = CrossEntropy.of(config.recipe, every[every >= 0], model.config.num_classes)
        return FaceCrossEntropy(config.recipe.label_smoothing, shares.adjustment), _evaluate

    def _evaluation(
        self, trained: TrainedMeshSegmenter, dataset: SegmentedMeshDataset, test: Tensor, seed: int
    ) -> tuple[SegmentationEvaluation, str, Callable[..., dict[str, Any]]]:
        found = evaluate_mesh_segmenter(trained, dataset, test, seed)
        return found, _text(found), summarize_segmentation

    def _predicted(
        self,
        trained: TrainedMeshSegmenter,
        graph: PrimalDualGraph,
        report: LoadReport,
        top: int,
        unfamiliar: bool,
    ) -> Predicted:
        from equigeo.report.plots import part_color  # plotly, which training does without

        area = cast("AreaShares", graph.shares).primal.double()
        area = area.clamp_min(torch.finfo(area.dtype).tiny)
        probabilities = trained.logits([graph])[0].double().softmax(dim=1)
        of_file = _parts_of_file(report, area[:, None] * probabilities)
        parts = of_file[report.kept_faces]
        shares = torch.zeros(len(trained.classes), dtype=area.dtype).index_add(0, parts, area)
        shares = shares / shares.sum()
        order = shares.argsort(descending=True, stable=True).tolist()
        ranked = [(trained.classes[i], shares[i].item()) for i in order if shares[i] > 0]
        # The last row is that of faces without a part.
        colors = torch.tensor([*map(part_color, range(len(trained.classes))), _NO_PART])
        numbers = torch.tensor([*_numbers(trained.classes), UNLABELLED])
        page = {
            "lead": f"Parts predicted by a {trained.what}, with their share of the area.",
            "facts": [(name, f"{share:.1%}") for name, share in ranked],
            "classes": list(trained.classes),
        }
        file = read_mesh_file(report.path)
        ply = format_ply(file, face_colors=colors[of_file], face_labels=numbers[of_file])
        return Predicted(ranked, {".parts.ply": ply}, {"predicted_parts": parts.tolist()}, page)


_NO_PART = (128, 128, 128)  # color of a face that was dropped


def _parts_of_file(report: LoadReport, scores: Tensor) -> Tensor:
    """Return the part of each face of the file by the sum over its triangles, -1 if dropped."""
    total = scores.new_zeros(report.file_faces, scores.shape[1])
    total = total.index_add(0, report.kept_faces, scores)
    return torch.where((total > 0).any(dim=1), total.argmax(dim=1), UNLABELLED)


def _numbers(classes: Sequence[str]) -> list[int]:
    """Return the label of each class: its name if all are labels, or else its position."""
    labels = set(map(str, range(MAX_LABEL + 1)))
    return list(map(int, classes)) if labels.issuperset(classes) else list(range(len(classes)))


segment_file = MeshSegmentation().predict


def _text(evaluation: SegmentationEvaluation) -> str:
    lines = [class_table(evaluation.classes, evaluation.confusion, "faces"), ""]
    width = max(map(len, evaluation.measures))
    lines += [f"{name:<{width}}  {value:.2%}" for name, value in evaluation.measures.items()]
    lines += ["", copies_table(evaluation.copies)]
    for copy in evaluation.copies:
        lines += [f"changed when {copy.kind}: {printable(name)}" for name in copy.changed]
    return "\n".join(lines)
