"""Training of a mesh classifier, from data set to checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

import equigeo
from equigeo.datasets import MeshDataset
from equigeo.mesh import PrimalDualClassifier
from equigeo.training.checkpoint import Checkpoint
from equigeo.training.divide import divide
from equigeo.training.errors import CheckpointError
from equigeo.training.fit_plan import FitPlan
from equigeo.training.labelled_graphs import LabelledGraphs
from equigeo.training.random_state import enter_stream, isolated_streams
from equigeo.training.run_folder import RunFolder
from equigeo.training.train_config import TrainConfig
from equigeo.training.trained_classifier import TASK, TrainedClassifier

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

    The last two are written after every epoch. The run may be killed at any moment; resumed, it
    ends with the weights of an uninterrupted one. Global random generators are left as found.

    Parameters
    ----------
    config : TrainConfig
        What to do.
    dataset : MeshDataset
        What ``config.data`` names.
    output : Path
        Folder of the run.
    resume : bool
        Continue after the last complete epoch of the run in ``output``, if there is one.
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
        If the user interrupts; the checkpoint of the last complete epoch is in place.
    """
    # Lightning takes seconds to import, and checkpoints are used without it; where it is missing,
    # this says so before anything is written.
    from equigeo.training.fit import fit

    folder = RunFolder(output)
    folder.check(config, resume=resume, overwrite=overwrite)
    with isolated_streams():
        model = _initial_model(config, dataset) if model is None else model
        train, test = _build_graphs(model, dataset, divide(dataset, config))
        model.fit_standardization(list(train.graphs))
        description = {
            "model": model.config,
            "classes": list(dataset.classes),
            "train": config.to_dict(),
            "version": equigeo.__version__,
        }
        resumed = _resumable(folder, description) if resume else None
        plan = FitPlan(folder, config, model, train, test, description, resumed)
        plan.check()
        folder.begin(config, resume=resume, overwrite=overwrite)
        if resumed is None or resumed["epochs"] < config.recipe.epochs:
            fit(plan, progress=progress, callbacks=callbacks)
    return TrainedClassifier.load(folder.checkpoint)


def _initial_model(config: TrainConfig, dataset: MeshDataset) -> PrimalDualClassifier:
    enter_stream(config.seed, "model")
    return PrimalDualClassifier.preset(config.preset, dataset.num_classes)


def _build_graphs(
    model: PrimalDualClassifier, dataset: MeshDataset, parts: tuple[Tensor, Tensor]
) -> tuple[LabelledGraphs, LabelledGraphs]:
    train, test = (
        LabelledGraphs([model.graph(dataset.meshes[i]) for i in part], dataset.labels[part])
        for part in parts
    )
    return train, test


def _resumable(folder: RunFolder, description: dict[str, Any]) -> dict[str, Any] | None:
    """Give the saved training state, or None where the run has not finished an epoch."""
    if not folder.checkpoint.exists():
        return None
    checkpoint = Checkpoint.load(folder.checkpoint, TASK)
    for name in ("train", "model", "classes"):
        if checkpoint.config.get(name) != description[name]:
            raise CheckpointError(
                f"{folder.checkpoint}: was trained with another {name!r} configuration; "
                "start over with --overwrite, or choose another --output"
            )
    if "epochs" not in checkpoint.training:
        raise CheckpointError(
            f"{folder.checkpoint}: holds no training state to resume; start over with --overwrite"
        )
    return checkpoint.training
