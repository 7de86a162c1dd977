"""What a run on meshes fits.

On its own because every task has its training under this name.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from equigeo.datasets import MeshDataset
from equigeo.mesh import PrimalDualClassifier
from equigeo.tasks.measures.classification import accuracy, classify
from equigeo.tasks.mesh_classification.config import MeshConfig
from equigeo.tasks.mesh_classification.data import BATCH_SIZE, LabelledGraphs, split_meshes
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.random_state import enter_stream


def plan_fit(
    config: MeshConfig, dataset: MeshDataset, model: PrimalDualClassifier | None = None
) -> FitPlan:
    """Build graphs and model; the standardisation of the model is fitted here.

    Parameters
    ----------
    config : MeshConfig
        What to do.
    dataset : MeshDataset
        What ``config.data`` names.
    model : PrimalDualClassifier, optional
        Train this one instead of the preset's.
    """
    if model is None:
        enter_stream(config.seed, "model")
        model = PrimalDualClassifier.preset(config.preset, dataset.num_classes)
    train, test = (_graphs(model, dataset, part) for part in split_meshes(dataset, config))
    train = LabelledGraphs(train.graphs, train.labels, config.recipe.jitter)
    model.fit_standardization(list(train.graphs))
    # a read-out of one stream leaves the last layers of the other unused
    used = model.config.streams == "both"
    objective = CrossEntropy.of(config.recipe, train.labels, dataset.num_classes)
    evaluate = partial(_evaluate, test)
    return FitPlan(config, model, dataset.classes, train, objective, evaluate, used)


def _graphs(model: PrimalDualClassifier, dataset: MeshDataset, part: Tensor) -> LabelledGraphs:
    return LabelledGraphs([model.graph(dataset.meshes[i]) for i in part], dataset.labels[part])


def _evaluate(test: LabelledGraphs, model: nn.Module) -> dict[str, float]:
    if len(test) == 0:
        return {}
    logits = classify(model, (batch.inputs for batch in test.batches(BATCH_SIZE)))
    return {"test_accuracy": accuracy(logits, test.labels)}
