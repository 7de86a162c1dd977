"""Travelling-salesman problem: short tours, learned from random cities."""

from equigeo.tasks.tsp.cli import TravellingSalesman
from equigeo.tasks.tsp.config import TOUR_RECIPES, TourConfig
from equigeo.tasks.tsp.data import validation_instances
from equigeo.tasks.tsp.evaluate import (
    DECODINGS,
    TOUR_COPIES,
    TourCopyResult,
    TourEvaluation,
    TourTransfer,
    evaluate_tour_model,
)
from equigeo.tasks.tsp.trained import TrainedTourModel

__all__ = [
    "DECODINGS",
    "TOUR_COPIES",
    "TOUR_RECIPES",
    "TourConfig",
    "TourCopyResult",
    "TourEvaluation",
    "TourTransfer",
    "TrainedTourModel",
    "TravellingSalesman",
    "evaluate_tour_model",
    "validation_instances",
]


def __dir__() -> list[str]:
    return __all__
