"""Training of a mesh classifier, from data set to checkpoint."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from equigeo.datasets import MeshDataset
from equigeo.mesh import PrimalDualClassifier
from equigeo.training.classify import classify
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.fit_plan import FitPlan
from equigeo.training.meshes.divide import divide
from equigeo.training.meshes.labelled_graphs import LabelledGraphs
from equigeo.training.meshes.train_config import TrainConfig
from equigeo.training.meshes.trained_classifier import TrainedClassifier
from equigeo.training.random_state import enter_stream
from equigeo.training.train_model import train_model


def train_classifier(
    config: TrainConfig,
    dataset: MeshDataset,
    output: Path,
    *,
    model: PrimalDualClassifier | None = None,
    **run: Any,
) -> TrainedClassifier:
    """Train a classifier and write ``config.json``, ``history.json`` and ``model.ckpt``.

    Parameters
    ----------
    config : TrainConfig
        What to do.
    dataset : MeshDataset
        What ``config.data`` names.
    output : Path
        Folder of the run.
    model : PrimalDualClassifier, optional
        Train this one instead of the preset; its standardisation is fitted here.
    **run
        As of :func:`equigeo.training.train_model`, which also says what may go wrong.

    Returns
    -------
    TrainedClassifier
        Read back from the checkpoint.
    """
    return train_model(
        TrainedClassifier, config, output, partial(_plan, config, dataset, model), **run
    )


def _plan(config: TrainConfig, dataset: MeshDataset, model: PrimalDualClassifier | None) -> FitPlan:
    if model is None:
        enter_stream(config.seed, "model")
        model = PrimalDualClassifier.preset(config.preset, dataset.num_classes)
    train, test = (_graphs(model, dataset, part) for part in divide(dataset, config))
    train = LabelledGraphs(train.graphs, train.labels, config.recipe.jitter)
    model.fit_standardization(list(train.graphs))
    # a read-out of one stream leaves the last layers of the other unused
    used = model.settings.streams == "both"
    objective = CrossEntropy.of(config.recipe, train.labels, dataset.num_classes)
    evaluate = partial(_evaluate, test)
    return FitPlan(config, model, dataset.classes, train, objective, evaluate, used)


def _graphs(model: PrimalDualClassifier, dataset: MeshDataset, part: Tensor) -> LabelledGraphs:
    return LabelledGraphs([model.graph(dataset.meshes[i]) for i in part], dataset.labels[part])


def _evaluate(test: LabelledGraphs, model: nn.Module) -> dict[str, float]:
    if len(test) == 0:
        return {}
    logits = classify(model, (batch.inputs for batch in test.batches(32)))
    return {"test_accuracy": (logits.argmax(dim=1) == test.labels).double().mean().item()}
