"""Fit of a run on meshes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain

import torch
from torch import Tensor, nn

from equigeo.datasets import MeshDataset
from equigeo.mesh import PrimalDualClassifier, PrimalDualGraph
from equigeo.mesh.remesh.with_resolution import with_resolution
from equigeo.tasks.measures.classification import accuracy, classify, embed
from equigeo.tasks.mesh_classification.config import MeshConfig
from equigeo.tasks.mesh_classification.data import BATCH_SIZE, LabelledGraphs, split_meshes
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.novelty import Embedded
from equigeo.training.random_state import derived_generator, enter_stream


def plan_fit(
    config: MeshConfig,
    dataset: MeshDataset,
    model: PrimalDualClassifier | None = None,  # trained instead of the preset's
) -> FitPlan:
    """Build graphs, model and fit; fit the standardisation unless the model has one."""
    if model is None:
        enter_stream(config.seed, "model")
        model = PrimalDualClassifier.preset(config.preset, dataset.num_classes)
    trained_on, evaluated_on = split_meshes(dataset, config)
    test = _graphs(model, dataset, evaluated_on)  # without noise
    resampled = _resampled(config, model, dataset, trained_on)
    train = replace(
        _graphs(model, dataset, trained_on), jitter=config.recipe.jitter,
        stretch=config.recipe.stretch, resampled=resampled,
    )  # fmt: skip
    # of training meshes alone: nothing about the others may reach the weights
    if not (model.standardize_primal.is_fitted or model.standardize_dual.is_fitted):
        model.fit_standardization([*train.graphs, *chain.from_iterable(resampled)])
    # a read-out of one stream leaves the last layers of the other unused
    used = model.config.streams == "both"
    objective = CrossEntropy.of(config.recipe, train.labels, dataset.num_classes)
    evaluate = partial(_evaluate, test)
    return FitPlan(
        config, model, dataset.classes, train, objective, evaluate, used, partial(_embed, train)
    )


def _embed(train: LabelledGraphs, model: nn.Module) -> Embedded:
    """Embed all training meshes without noise, at all training resolutions."""
    versions = [train, *(LabelledGraphs(graphs, train.labels) for graphs in train.resampled)]
    batches = chain.from_iterable(version.batches(BATCH_SIZE) for version in versions)
    vectors = embed(model, (batch.inputs for batch in batches))
    number = len(versions)
    return Embedded(vectors, train.labels.repeat(number), torch.arange(len(train)).repeat(number))


def _graphs(model: PrimalDualClassifier, dataset: MeshDataset, part: Tensor) -> LabelledGraphs:
    return LabelledGraphs([model.graph(dataset.meshes[i]) for i in part], dataset.labels[part])


def _resampled(
    config: MeshConfig, model: PrimalDualClassifier, dataset: MeshDataset, part: Tensor
) -> list[list[PrimalDualGraph]]:
    """Build graphs of all training meshes at each resolution of the recipe."""
    # Before training: one simplification takes as long as a training step.
    return [
        [
            model.graph(
                with_resolution(
                    dataset.meshes[i], share,
                    derived_generator(config.seed, "resolution", number, i),
                )
            )
            for i in part.tolist()
        ]
        for number, share in enumerate(config.recipe.resolutions)
    ]  # fmt: skip


def _evaluate(test: LabelledGraphs, model: nn.Module) -> dict[str, float]:
    if len(test) == 0:
        return {}
    logits = classify(model, (batch.inputs for batch in test.batches(BATCH_SIZE)))
    return {"test_accuracy": accuracy(logits, test.labels)}
