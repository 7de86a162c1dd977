"""Fit of a run on tours."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from equigeo.mds import AttentionModel
from equigeo.tasks.tsp.config import TourConfig
from equigeo.tasks.tsp.data import RandomInstances
from equigeo.tasks.tsp.find_tours import find_tours
from equigeo.tasks.tsp.objective import PolicyGradient
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.random_state import enter_stream


def plan_fit(
    config: TourConfig,
    validation: Tensor,  # (B, cities, 2) float64
    model: nn.Module | None = None,  # trained instead of the preset's
) -> FitPlan:
    """Build model and fit; the history has mean lengths of sampled, greedy and best tours."""
    if model is None:
        enter_stream(config.seed, "model")
        model = AttentionModel.preset(config.preset, config.model)
    source = RandomInstances(config.instances, config.cities)
    evaluate = partial(_evaluate, validation)
    return FitPlan(config, model, (), source, PolicyGradient(), evaluate)


def _evaluate(cities: Tensor, model: nn.Module) -> dict[str, float]:
    return {
        "greedy_length": find_tours(model, cities).length.mean().item(),
        "multistart_length": find_tours(model, cities, every_start=True).length.mean().item(),
    }
