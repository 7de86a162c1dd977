"""Travelling-salesman problem: short tours, learned from random cities."""

from equigeo._core.deprecation import private_names, renamed
from equigeo.tasks.tsp.task import (
    TOUR_RECIPES,
    TourConfig,
    TrainedTourModel,
    TravellingSalesman,
    evaluate_tour_model,
    validation_instances,
)

__all__ = [
    "TOUR_RECIPES",
    "TourConfig",
    "TrainedTourModel",
    "TravellingSalesman",
    "evaluate_tour_model",
    "validation_instances",
]
__dir__ = __all__.copy


_PRIVATE = {
    "DECODINGS": ("equigeo.tasks.tsp.task", "evaluate_tour_model"),
    "TOUR_COPIES": ("equigeo.tasks.tsp.task", "evaluate_tour_model"),
    "TourCopyResult": ("equigeo.tasks.tsp.task", "evaluate_tour_model"),
    "TourEvaluation": ("equigeo.tasks.tsp.task", "evaluate_tour_model"),
    "TourTransfer": ("equigeo.tasks.tsp.task", "evaluate_tour_model"),
}
__getattr__ = renamed(__name__, private_names("0.3", _PRIVATE))
