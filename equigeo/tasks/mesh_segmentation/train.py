"""Fit of a segmentation run."""

from __future__ import annotations

from functools import partial

from torch import nn

from equigeo.datasets import SegmentedMeshDataset
from equigeo.mesh import PrimalDualSegmenter
from equigeo.tasks.measures.classification import classify
from equigeo.tasks.measures.segmentation import mesh_face_accuracy
from equigeo.tasks.mesh_classification.data import LabelledMeshes
from equigeo.tasks.mesh_classification.train import embed_meshes, mesh_sources
from equigeo.tasks.mesh_segmentation.config import SegmentationConfig
from equigeo.tasks.mesh_segmentation.data import BATCH_SIZE, split_segmented_meshes
from equigeo.tasks.mesh_segmentation.objective import FaceCrossEntropy
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.random_state import enter_stream


def plan_fit(
    config: SegmentationConfig,
    dataset: SegmentedMeshDataset,
    model: PrimalDualSegmenter | None = None,  # trained instead of the preset's
) -> FitPlan:
    """Build graphs, model and fit; fit the standardisation unless the model has one."""
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
