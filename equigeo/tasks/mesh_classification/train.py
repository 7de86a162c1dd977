"""Fit of a run on meshes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.datasets import MeshDataset
from equigeo.datasets.segmentation.transfer_face_labels import transfer_face_labels
from equigeo.mesh import PrimalDualClassifier
from equigeo.mesh.remesh.with_resolution import with_resolution
from equigeo.tasks.measures.classification import accuracy, classify, embed
from equigeo.tasks.mesh_classification.config import MeshConfig
from equigeo.tasks.mesh_classification.data import BATCH_SIZE, LabelledMeshes, split_meshes
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.novelty import Embedded
from equigeo.training.random_state import derived_generator, enter_stream
from equigeo.training.run_config import RunConfig


def plan_fit(
    config: MeshConfig,
    dataset: MeshDataset,
    model: PrimalDualClassifier | None = None,  # trained instead of the preset's
) -> FitPlan:
    """Build graphs, model and fit; fit the standardisation unless the model has one."""
    if model is None:
        enter_stream(config.seed, "model")
        model = PrimalDualClassifier.preset(config.preset, dataset.num_classes)
    train, test = mesh_sources(config, model, dataset, split_meshes(dataset, config))
    # a read-out of one stream leaves the last layers of the other unused
    used = model.config.streams == "both"
    objective = CrossEntropy.of(config.recipe, train.labels, dataset.num_classes)
    embedding = partial(embed_meshes, train, BATCH_SIZE)
    return FitPlan(
        config, model, dataset.classes, train, objective, partial(_evaluate, test), used, embedding
    )


def mesh_sources(
    config: RunConfig,
    model: Any,  # with `graph` and `fit_standardization`
    dataset: Any,  # with labels of meshes or of faces
    parts: tuple[Tensor, Tensor],  # positions to train and to evaluate on
) -> tuple[LabelledMeshes, LabelledMeshes]:
    """Build the training source, with noise, and the evaluated one; fit the standardisation."""
    train, test = (labelled_meshes(model, dataset, part) for part in parts)
    recipe = config.recipe
    resampled = _resampled(config, model, dataset, parts[0])
    train = replace(train, jitter=recipe.jitter, stretch=recipe.stretch, resampled=resampled)
    # Training meshes only: evaluated meshes must not influence the weights.
    if not (model.standardize_primal.is_fitted or model.standardize_dual.is_fitted):
        versions = (train, *resampled)
        model.fit_standardization([graph for version in versions for graph in version.graphs])
    return train, test


def labelled_meshes(model: Any, dataset: Any, part: Tensor) -> LabelledMeshes:
    """Build the labelled graphs of some meshes."""
    chosen, labels = part.tolist(), dataset.labels
    return LabelledMeshes(
        [model.graph(dataset.meshes[i]) for i in chosen],
        labels[part] if isinstance(labels, Tensor) else [labels[i] for i in chosen],
    )


def _resampled(config: RunConfig, model: Any, dataset: Any, part: Tensor) -> list[LabelledMeshes]:
    """Build graphs and labels of all training meshes at each resolution of the recipe."""
    # Before training: one simplification takes as long as a training step.
    chosen, labels = part.tolist(), dataset.labels
    found = []
    for number, share in enumerate(config.recipe.resolutions):
        streams = [derived_generator(config.seed, "resolution", number, i) for i in chosen]
        pairs = zip(chosen, streams, strict=True)
        meshes = [with_resolution(dataset.meshes[i], share, stream) for i, stream in pairs]
        moved: Any
        if isinstance(labels, Tensor):
            moved = labels[part]
        else:
            rows = zip(chosen, meshes, strict=True)
            moved = [transfer_face_labels(dataset.meshes[i], labels[i], mesh) for i, mesh in rows]
        found.append(LabelledMeshes([model.graph(mesh) for mesh in meshes], moved))
    return found


def embed_meshes(train: LabelledMeshes, batch_size: int, model: nn.Module) -> Embedded:
    """Embed all training meshes without noise, at all training resolutions."""
    versions = (train, *train.resampled)
    batches = chain.from_iterable(version.batches(batch_size) for version in versions)
    vectors = embed(model, (batch.inputs for batch in batches))
    # Meshes with labelled faces are of one kind.
    labels = train.labels if isinstance(train.labels, Tensor) else torch.zeros(len(train)).long()
    number = len(versions)
    return Embedded(vectors, labels.repeat(number), torch.arange(len(train)).repeat(number))


def _evaluate(test: LabelledMeshes, model: nn.Module) -> dict[str, float]:
    if len(test) == 0:
        return {}
    logits = classify(model, (batch.inputs for batch in test.batches(BATCH_SIZE)))
    return {"test_accuracy": accuracy(logits, test.labels)}
