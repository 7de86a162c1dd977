"""Command-line task for the travelling-salesman problem."""

from __future__ import annotations

import argparse

from torch import Tensor, nn

from equigeo._text import printable
from equigeo.mds import AttentionModel
from equigeo.tasks.arguments import Argument, natural, positive
from equigeo.tasks.evaluation_output import EvaluationOutput
from equigeo.tasks.task import Task
from equigeo.tasks.tsp.config import TourConfig
from equigeo.tasks.tsp.data import validation_instances
from equigeo.tasks.tsp.evaluate import DECODINGS, TourEvaluation, evaluate_tour_model
from equigeo.tasks.tsp.train import plan_fit
from equigeo.tasks.tsp.trained import TrainedTourModel
from equigeo.training.loop.fit_plan import FitPlan


class TravellingSalesman(Task[TourConfig, Tensor, TrainedTourModel]):
    """Find short tours after training on random cities.

    Examples
    --------
    >>> TravellingSalesman().name
    'tsp'
    """

    help = "find short round trips after training on random cities"
    train_arguments = (
        Argument(
            "--model", "what the network sees: embedded cities (mds, default), or coordinates",
            choices=("mds", "plain"),
        ),
        Argument("--cities", "cities of every instance (default: 20)", positive, metavar="N",
                 unit="cities"),
        Argument("--instances", "instances per epoch (default: 100000)", positive, metavar="N",
                 unit="instances"),
    )  # fmt: skip
    evaluate_arguments = (
        Argument("--data", "tsp: TSPLIB (default: none)", metavar="DIR|ARCHIVE"),
        Argument("--seed", "seed of transformed copies (default: 0)", natural),
        Argument(
            "--instances",
            "how many test instances, of which the shortest tours are found (default: 1000)",
            positive, metavar="N", unit="instances",
        ),
    )  # fmt: skip
    measures = {  # noqa: RUF012
        "greedy_length": "mean length of greedy tours {value:.4f}",
        "multistart_length": "mean length of the best of all starts {value:.4f}",
    }
    trained_type = TrainedTourModel

    def resolve_data(self, data: str | None) -> str:
        """Return the only training data; other tours can only be evaluated."""
        return TourConfig.data if data is None else super().resolve_data(data)

    def load(self, config: TourConfig) -> Tensor:
        """Draw the validation instances; training instances are drawn during training."""
        return validation_instances(config.cities)

    def describe(self, config: TourConfig, data: Tensor) -> str:
        """Return the names of instances and model."""
        return (
            f"{config.instances} random instances of {config.cities} cities per epoch, "
            f"{config.model} model"
        )

    def plan(self, config: TourConfig, data: Tensor, model: nn.Module | None = None) -> FitPlan:
        """Build the model."""
        return plan_fit(config, data, model)

    def preset_model(self, config: TourConfig) -> AttentionModel:
        """Build the preset's model."""
        return AttentionModel.preset(config.preset, config.model)

    def evaluate(self, trained: TrainedTourModel, options: argparse.Namespace) -> EvaluationOutput:
        """Compute gaps to optimal tours, the effect of transformations, and gaps on TSPLIB."""
        evaluation = evaluate_tour_model(
            trained, instances=options.instances or 1000, data=options.data, seed=options.seed or 0
        )
        return EvaluationOutput(tour_tables(evaluation), evaluation.to_dict())


def tour_tables(evaluation: TourEvaluation) -> str:
    """Format gaps, the effect of transformations and TSPLIB results as tables."""
    lines = [
        f"{evaluation.instances} instances of {evaluation.cities} cities, mean length of the "
        f"shortest tours {evaluation.optimal_length:.4f}",
        f"{'tours':<24}  {'length':>7}  {'gap':>7}",
    ]
    for name, length in evaluation.lengths.items():
        lines.append(f"{name:<24}  {length:7.4f}  {evaluation.gap(name):7.2%}")
    if evaluation.copies:
        lines += ["", f"{'copies':<14}  {'same tour':>9}  {'gap':>7}  {'flagged':>7}"]
    for copy in evaluation.copies:
        lines.append(f"{copy.kind:<14}  {copy.identical:9.2%}  {copy.gap:7.2%}  {copy.flagged:7d}")
    if evaluation.transfer:
        lines += ["", *_transfer(evaluation)]
    return "\n".join(lines)


def _transfer(evaluation: TourEvaluation) -> list[str]:
    """Return a line per TSPLIB instance with gaps to the best known length."""
    lines = [f"{'TSPLIB':<10}  {'best':>8}  " + "  ".join(DECODINGS)]
    for entry in evaluation.transfer:
        gaps = (f"{entry.lengths[d] / entry.best - 1:{len(d)}.2%}" for d in DECODINGS)
        lines.append(f"{printable(entry.name):<10}  {entry.best:8d}  " + "  ".join(gaps))
    means = (f"{evaluation.transfer_gap(d):{len(d)}.2%}" for d in DECODINGS)
    return [*lines, f"{'mean':<20}  " + "  ".join(means)]
