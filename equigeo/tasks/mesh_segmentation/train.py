"""Fit of a segmentation run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain

import torch
from torch import Tensor, nn

from equigeo.datasets import SegmentedMeshDataset
from equigeo.datasets.segmentation.transfer_face_labels import transfer_face_labels
from equigeo.mesh import PrimalDualSegmenter
from equigeo.mesh.remesh.with_resolution import with_resolution
from equigeo.tasks.measures.classification import classify, embed
from equigeo.tasks.measures.segmentation import mesh_face_accuracy
from equigeo.tasks.mesh_segmentation.config import SegmentationConfig
from equigeo.tasks.mesh_segmentation.data import (
    BATCH_SIZE,
    LabelledFaces,
    split_segmented_meshes,
)
from equigeo.tasks.mesh_segmentation.objective import FaceCrossEntropy
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.novelty import Embedded
from equigeo.training.random_state import derived_generator, enter_stream


def plan_fit(
    config: SegmentationConfig,
    dataset: SegmentedMeshDataset,
    model: PrimalDualSegmenter | None = None,  # trained instead of the preset's
) -> FitPlan:
    """Build graphs, model and fit; fit the standardisation unless the model has one."""
    if model is None:
        enter_stream(config.seed, "model")
        model = PrimalDualSegmenter.preset(config.preset, dataset.num_classes)
    parts = split_segmented_meshes(dataset, config)
    train, test = (labelled_faces(model, dataset, part) for part in parts)
    recipe = config.recipe
    # evaluated meshes get no noise
    train = replace(
        train, jitter=recipe.jitter, stretch=recipe.stretch,
        resampled=_resampled(config, model, dataset, parts[0]),
    )  # fmt: skip
    # of training meshes alone: nothing about the others may reach the weights
    versions = (train, *train.resampled)
    if not (model.standardize_primal.is_fitted or model.standardize_dual.is_fitted):
        model.fit_standardization([graph for version in versions for graph in version.graphs])
    objective = FaceCrossEntropy(config.recipe.label_smoothing)
    evaluate = partial(_evaluate, test)
    return FitPlan(
        config, model, dataset.classes, train, objective, evaluate, embed=partial(_embed, train)
    )


def _embed(train: LabelledFaces, model: nn.Module) -> Embedded:
    """Embed all training meshes without noise at all training resolutions, as one kind of shape."""
    versions = (train, *train.resampled)
    batches = chain.from_iterable(version.batches(BATCH_SIZE) for version in versions)
    vectors = embed(model, (batch.inputs for batch in batches))
    kind = torch.zeros(len(vectors), dtype=torch.long)
    return Embedded(vectors, kind, torch.arange(len(train)).repeat(len(versions)))


def labelled_faces(
    model: PrimalDualSegmenter,
    dataset: SegmentedMeshDataset,
    part: Tensor,  # (meshes of the part,) positions
) -> LabelledFaces:
    """Build the labelled graphs of some meshes."""
    chosen = part.tolist()
    graphs = [model.graph(dataset.meshes[i]) for i in chosen]
    return LabelledFaces(graphs, [dataset.labels[i] for i in chosen])


def _resampled(
    config: SegmentationConfig,
    model: PrimalDualSegmenter,
    dataset: SegmentedMeshDataset,
    part: Tensor,
) -> list[LabelledFaces]:
    """Build graphs and labels of all training meshes at each resolution of the recipe."""
    found = []
    for number, share in enumerate(config.recipe.resolutions):
        graphs, labels = [], []
        for i in part.tolist():
            generator = derived_generator(config.seed, "resolution", number, i)
            mesh = with_resolution(dataset.meshes[i], share, generator)
            graphs.append(model.graph(mesh))
            labels.append(transfer_face_labels(dataset.meshes[i], dataset.labels[i], mesh))
        found.append(LabelledFaces(graphs, labels))
    return found


def _evaluate(test: LabelledFaces, model: nn.Module) -> dict[str, float]:
    logits = classify(model, (batch.inputs for batch in test.batches(BATCH_SIZE)))
    predictions = logits.argmax(dim=1).split([len(labels) for labels in test.face_labels])
    found = mesh_face_accuracy(predictions, test.face_labels)
    return {} if found is None else {"test_accuracy": found}
