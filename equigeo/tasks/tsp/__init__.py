"""Travelling-salesman problem: short tours, learned from random cities."""

from equigeo._core.deprecation import Renamed, renamed
from equigeo.tasks.tsp.run import TOUR_RECIPES, TourConfig, TrainedTourModel, validation_instances
from equigeo.tasks.tsp.task import DECODINGS as _DECODINGS
from equigeo.tasks.tsp.task import TOUR_COPIES as _TOUR_COPIES
from equigeo.tasks.tsp.task import TourCopyResult as _TourCopyResult
from equigeo.tasks.tsp.task import TourEvaluation as _TourEvaluation
from equigeo.tasks.tsp.task import TourTransfer as _TourTransfer
from equigeo.tasks.tsp.task import TravellingSalesman, evaluate_tour_model

__all__ = [
    "TOUR_RECIPES",
    "TourConfig",
    "TrainedTourModel",
    "TravellingSalesman",
    "evaluate_tour_model",
    "validation_instances",
]


def __dir__() -> list[str]:
    return __all__


_PRIVATE = {
    "DECODINGS": ("evaluate_tour_model", _DECODINGS),
    "TOUR_COPIES": ("evaluate_tour_model", _TOUR_COPIES),
    "TourCopyResult": ("evaluate_tour_model", _TourCopyResult),
    "TourEvaluation": ("evaluate_tour_model", _TourEvaluation),
    "TourTransfer": ("evaluate_tour_model", _TourTransfer),
}
__getattr__ = renamed(
    __name__, {old: Renamed(new, "0.3", private) for old, (new, private) in _PRIVATE.items()}
)
