"""Configuration, data, fit and trained model of mesh segmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.brief import brief_fields
from equigeo._core.config import Range
from equigeo.datasets import SegmentedMeshDataset, articulated_parts, load_segmentation_folder
from equigeo.mesh import PrimalDualSegmenter, TriangleMesh, load_mesh
from equigeo.mesh.geometry.half_edges import HalfEdgeGeometry
from equigeo.mesh.io.ply import format_ply
from equigeo.tasks.common.classification import classify
from equigeo.tasks.common.mesh_data import warn_of_lost_area
from equigeo.tasks.common.segmentation import mesh_face_accuracy
from equigeo.tasks.mesh_classification.run import (
    BUILTIN,
    PADDING,
    LabelledMeshes,
    TrainedMeshModel,
    embed_meshes,
    mesh_sources,
)
from equigeo.tasks.task import FilePrediction
from equigeo.training.config import Recipe, RunConfig
from equigeo.training.data import LabelledBatch
from equigeo.training.objective import Objective
from equigeo.training.plan import FitPlan
from equigeo.training.process import enter_stream, seed_sequence

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
class SegmentationConfig(RunConfig):
    """Configuration of a segmentation run, saved as ``config.json``.

    Parameters
    ----------
    data : str
        ``"builtin"``, or the path of a folder or archive with ``train``, ``test`` and ``seg``.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``.
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
    unused: ClassVar[tuple[str, ...]] = ("logit_adjustment",)
    ranges: ClassVar[Mapping[str, Range]] = {**RunConfig.ranges, "holdout": Range(0, 10**6)}


BATCH_SIZE: Final = 16  # meshes that are segmented at once


def load_segmented_meshes(data: str) -> SegmentedMeshDataset:
    """Load ``"builtin"``, or a folder or archive of meshes with labels."""
    if data == BUILTIN:
        return articulated_parts()
    dataset = load_segmentation_folder(data)
    warn_of_lost_area(dataset.names, dataset.reports)
    return dataset


def split_segmented_meshes(
    dataset: SegmentedMeshDataset, config: SegmentationConfig
) -> tuple[Tensor, Tensor]:
    """Return increasing positions of the training and of the evaluated meshes.

    With ``holdout``, both are training meshes, split independently of the seed of the run.

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
    train = dataset.in_train.nonzero().flatten()
    test = (~dataset.in_train).nonzero().flatten()
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


UNLABELLED: Final = -1  # a face without a label, which does not count


@dataclass(frozen=True)
class FaceCrossEntropy(Objective):
    """Cross-entropy of face labels, averaged per mesh; meshes without labels do not count."""

    label_smoothing: float = 0.0  # share of the target spread over all parts

    __repr__ = brief_fields

    measure: ClassVar[str] = "accuracy"
    form: ClassVar[str] = ".1%"
    evaluated: ClassVar[str] = "test_accuracy"

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
        losses = F.cross_entropy(
            logits, labels, ignore_index=UNLABELLED, reduction="none",
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


def plan_fit(
    config: SegmentationConfig,
    dataset: SegmentedMeshDataset,
    model: PrimalDualSegmenter | None = None,  # trained instead of the preset's
) -> FitPlan:
    """Build graphs, model and fit; fit the standardization unless the model has one."""
    if model is None:
        enter_stream(config.seed, "model")
        model = PrimalDualSegmenter.preset(config.preset, dataset.num_classes)
    train, test = mesh_sources(config, model, dataset, split_segmented_meshes(dataset, config))
    objective = FaceCrossEntropy(config.recipe.label_smoothing)
    embedding = partial(embed_meshes, train, BATCH_SIZE)
    return FitPlan(
        config, model, dataset.classes, train, objective, partial(_evaluate, test), embed=embedding
    )


def _evaluate(test: LabelledMeshes, model: nn.Module) -> dict[str, float]:
    logits = classify(model, (batch.inputs for batch in test.batches(BATCH_SIZE)))
    predictions = logits.argmax(dim=1).split([len(labels) for labels in test.labels])
    found = mesh_face_accuracy(predictions, test.labels)
    return {} if found is None else {"test_accuracy": found}


class TrainedMeshSegmenter(TrainedMeshModel[SegmentationConfig]):
    """Trained mesh segmenter, as ``equigeo evaluate`` and ``predict`` load it."""

    task, what, config_type = "mesh-segmentation", "mesh segmenter", SegmentationConfig
    model_type, batch_size = PrimalDualSegmenter, BATCH_SIZE

    def logits(self, meshes: Sequence[TriangleMesh]) -> list[Tensor]:
        """Return logits of every mesh, (faces, parts) each.

        Equivariance
        ------------
        Invariant to rotation, reflection, translation and scale, and equivariant to permutations
        of faces and vertices, with the default preset.
        """
        if len(meshes) == 0:
            return []
        logits = classify(self.model, self._batches(meshes))
        return list(logits.split([mesh.num_faces for mesh in meshes]))


def segment_file(
    segmenter: TrainedMeshSegmenter, path: Path, top: int = 1, *, view: bool = False
) -> FilePrediction:
    """Load a mesh file, repair it and segment it; ``view`` adds a page, ``.parts.html``."""
    from equigeo.report.plots import part_color  # plotly, which training does without

    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    mesh, report = load_mesh(path)
    parts = segmenter.logits([mesh])[0].argmax(dim=1)
    area = HalfEdgeGeometry.measure(mesh.vertices.double(), mesh.faces).area
    shares = torch.zeros(len(segmenter.classes), dtype=area.dtype).index_add(0, parts, area)
    shares = shares / shares.sum().clamp_min(torch.finfo(area.dtype).tiny)
    order = shares.argsort(descending=True, stable=True).tolist()
    ranking = [(segmenter.classes[i], shares[i].item()) for i in order if shares[i] > 0]
    notes = "" if report.is_clean and not report.warnings else report.summary()
    colors = torch.tensor([part_color(part) for part in range(len(segmenter.classes))])
    ply = format_ply(mesh, face_colors=colors[parts], face_labels=parts)
    files = {".parts.ply": ply}
    remark = segmenter._remark(mesh)
    if view:
        files[".parts.html"] = segmenter._page(
            mesh,
            report,
            {"predicted_parts": parts.tolist()},
            remark,
            lead=f"Parts predicted by a {segmenter.what}, with their share of the area.",
            facts=[(name, f"{share:.1%}") for name, share in ranking],
            classes=list(segmenter.classes),
        )
    return FilePrediction(path, ranking[:top], notes, files, remark)
