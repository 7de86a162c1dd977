"""Training of a model of tours, from random instances to checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from equigeo.mds import AttentionModel
from equigeo.training.find_tours import find_tours
from equigeo.training.fit_plan import FitPlan
from equigeo.training.policy_gradient import PolicyGradient
from equigeo.training.random_instances import RandomInstances
from equigeo.training.random_state import enter_stream
from equigeo.training.run_folder import RunFolder
from equigeo.training.tour_config import TourConfig
from equigeo.training.train_run import train_run
from equigeo.training.trained_tour_model import TrainedTourModel
from equigeo.training.validation_instances import validation_instances

if TYPE_CHECKING:
    from equigeo.training.lightning import L


def train_tour_model(
    config: TourConfig,
    output: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    model: nn.Module | None = None,
    progress: bool = False,
    callbacks: Sequence[L.Callback] = (),
) -> TrainedTourModel:
    """Train by reinforcement and write ``config.json``, ``history.json`` and ``model.ckpt``.

    The history has the mean length of sampled tours, and after epochs that are evaluated those of
    the tours of :func:`validation_instances`, greedy and best of all starts. Files, interruption
    and resuming are as in :func:`equigeo.training.train_classifier`.

    Parameters
    ----------
    config : TourConfig
        What to do.
    output : Path
        Folder of the run.
    resume : bool
        Continue the run in ``output``, if there is one.
    overwrite : bool
        Replace the run in ``output``.
    model : torch.nn.Module, optional
        Train this one instead of the preset.
    progress : bool
        Show progress on standard error.
    callbacks : sequence of Lightning callbacks
        Added to those of the run.

    Returns
    -------
    TrainedTourModel
        Read back from the checkpoint.

    Raises
    ------
    ValueError
        If there are too few instances in a step.
    OutputFolderError
        If ``output`` is unwritable or holds another run.
    CheckpointError
        If the checkpoint to resume is unusable.
    ImportError
        If Lightning is not installed.
    KeyboardInterrupt
        If the user interrupts; the last checkpoint is in place.
    """
    folder = RunFolder(output, TourConfig)
    train_run(
        folder,
        TrainedTourModel.task,
        config,
        partial(_prepare, config, model),
        resume=resume,
        overwrite=overwrite,
        progress=progress,
        callbacks=callbacks,
    )
    return TrainedTourModel.load(folder.checkpoint)


def _prepare(config: TourConfig, model: nn.Module | None) -> FitPlan:
    if model is None:
        enter_stream(config.seed, "model")
        model = AttentionModel.preset(config.preset, config.model)
    source = RandomInstances(config.instances, config.cities)
    evaluate = partial(_evaluate, validation_instances(config.cities))
    return FitPlan(config, model, (), source, PolicyGradient(), evaluate)


def _evaluate(cities: Tensor, model: nn.Module) -> dict[str, float]:
    return {
        "greedy_length": find_tours(model, cities).length.mean().item(),
        "multistart_length": find_tours(model, cities, every_start=True).length.mean().item(),
    }
