"""Training of a model of tours, from random instances to checkpoint."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from equigeo.mds import AttentionModel
from equigeo.training.fit_plan import FitPlan
from equigeo.training.random_state import enter_stream
from equigeo.training.tours.find_tours import find_tours
from equigeo.training.tours.policy_gradient import PolicyGradient
from equigeo.training.tours.random_instances import RandomInstances
from equigeo.training.tours.tour_config import TourConfig
from equigeo.training.tours.trained_tour_model import TrainedTourModel
from equigeo.training.tours.validation_instances import validation_instances
from equigeo.training.train_model import train_model


def train_tour_model(
    config: TourConfig, output: Path, model: nn.Module | None = None, **run: Any
) -> TrainedTourModel:
    """Train by reinforcement, through :func:`equigeo.training.train_model`.

    The history has the mean length of sampled tours, and after epochs that are evaluated those of
    the tours of :func:`validation_instances`, greedy and best of all starts.

    Parameters
    ----------
    config : TourConfig
        What to do.
    output : Path
        Folder of the run.
    model : torch.nn.Module, optional
        Train this one instead of the preset.
    **run
        As of :func:`equigeo.training.train_model`, which also says what may go wrong.

    Returns
    -------
    TrainedTourModel
        Read back from the checkpoint.
    """
    return train_model(TrainedTourModel, config, output, partial(_plan, config, model), **run)


def _plan(config: TourConfig, model: nn.Module | None) -> FitPlan:
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
