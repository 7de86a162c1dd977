"""Training of a mesh classifier, from data set to checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from equigeo.datasets import MeshDataset
from equigeo.mesh import PrimalDualClassifier
from equigeo.training.classify import classify
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.divide import divide
from equigeo.training.fit_plan import FitPlan
from equigeo.training.labelled_graphs import LabelledGraphs
from equigeo.training.random_state import enter_stream
from equigeo.training.run_folder import RunFolder
from equigeo.training.train_config import TrainConfig
from equigeo.training.train_run import train_run
from equigeo.training.trained_classifier import TrainedClassifier

if TYPE_CHECKING:
    from equigeo.training.lightning import L


def train_classifier(
    config: TrainConfig,
    dataset: MeshDataset,
    output: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    model: PrimalDualClassifier | None = None,
    progress: bool = False,
    callbacks: Sequence[L.Callback] = (),
) -> TrainedClassifier:
    """Train a classifier and write ``config.json``, ``history.json`` and ``model.ckpt``.

    The last two are written after every epoch, and every five minutes within long ones. The run
    may be killed at any moment; resumed, it ends with the weights of an uninterrupted one. Global
    random generators are left as found.

    Parameters
    ----------
    config : TrainConfig
        What to do.
    dataset : MeshDataset
        What ``config.data`` names.
    output : Path
        Folder of the run.
    resume : bool
        Continue the run in ``output``, if there is one.
    overwrite : bool
        Replace the run in ``output``.
    model : PrimalDualClassifier, optional
        Train this one instead of the preset; its standardisation is fitted here.
    progress : bool
        Show progress on standard error.
    callbacks : sequence of Lightning callbacks
        Added to those of the run.

    Returns
    -------
    TrainedClassifier
        Read back from the checkpoint.

    Raises
    ------
    ValueError
        If the data do not fit the configuration.
    OutputFolderError
        If ``output`` is unwritable or holds another run.
    CheckpointError
        If the checkpoint to resume is unusable.
    ImportError
        If Lightning is not installed.
    KeyboardInterrupt
        If the user interrupts; the last checkpoint is in place.
    """
    folder = RunFolder(output, TrainConfig)
    train_run(
        folder,
        TrainedClassifier.task,
        config,
        partial(_prepare, config, dataset, model),
        resume=resume,
        overwrite=overwrite,
        progress=progress,
        callbacks=callbacks,
    )
    return TrainedClassifier.load(folder.checkpoint)


def _prepare(
    config: TrainConfig, dataset: MeshDataset, model: PrimalDualClassifier | None
) -> FitPlan:
    if model is None:
        enter_stream(config.seed, "model")
        model = PrimalDualClassifier.preset(config.preset, dataset.num_classes)
    train, test = (_graphs(model, dataset, part) for part in divide(dataset, config))
    train = LabelledGraphs(train.graphs, train.labels, config.recipe.jitter)
    model.fit_standardization(list(train.graphs))
    # a read-out of one stream leaves the last layers of the other unused
    used = model.settings.streams == "both"
    objective = CrossEntropy(config.recipe.label_smoothing)
    evaluate = partial(_evaluate, test)
    return FitPlan(config, model, dataset.classes, train, objective, evaluate, used)


def _graphs(model: PrimalDualClassifier, dataset: MeshDataset, part: Tensor) -> LabelledGraphs:
    return LabelledGraphs([model.graph(dataset.meshes[i]) for i in part], dataset.labels[part])


def _evaluate(test: LabelledGraphs, model: nn.Module) -> dict[str, float]:
    if len(test) == 0:
        return {}
    logits = classify(model, (batch.inputs for batch in test.batches(32)))
    return {"test_accuracy": (logits.argmax(dim=1) == test.labels).double().mean().item()}
