"""Evaluation and command-line task of tours."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from equigeo._core.brief import brief_fields
from equigeo._core.text import printable
from equigeo.datasets import TSPInstance, load_tsplib, optimal_lengths, uniform_cities
from equigeo.mds import AttentionModel, Tours, tour_lengths
from equigeo.tasks.common.arguments import Argument, natural, positive
from equigeo.tasks.common.copies import cloud_copies
from equigeo.tasks.task import Evaluation, EvaluationOutput, Task
from equigeo.tasks.tsp.run import TourConfig, TrainedTourModel, plan_fit, validation_instances
from equigeo.training.plan import FitPlan

DECODINGS: Final[Mapping[str, dict[str, bool]]] = {
    "greedy": {},
    "greedy in 8 frames": {"augment": True},
    "every start": {"every_start": True},
    "every start in 8 frames": {"every_start": True, "augment": True},
}
LARGEST_TRANSFER: Final = 200  # cities
TEST_INSTANCES: Final = 10_000  # of the published test sets
TOUR_COPIES: Final = ("rotated", "reflected", "scaled", "translated", "all of these")

_CENTRE = 0.5  # of the unit square, in every coordinate


def tour_copies(
    cities: Tensor,  # (B, cities, 2) float64
    kind: str,  # one of TOUR_COPIES
    seed: int = 0,  # combined with the position of the instance
) -> Tensor:
    """Draw a transformed copy of every instance, (B, cities, 2)."""
    # copies of the unit square stay near it, which a network without an embedding needs
    copies = cities - _CENTRE
    for part in TOUR_COPIES[1:-1] if kind == TOUR_COPIES[-1] else (kind,):
        copies = cloud_copies(copies, part, seed)
    return copies + _CENTRE


@dataclass(frozen=True)
class TourCopyResult:
    """Greedy tours of transformed copies."""

    kind: str  # one of TOUR_COPIES
    identical: float  # share of instances with the same set of edges
    gap: float  # mean length of these tours on the originals over the optimal one, minus 1
    flagged: int  # copies that the embedding reports as symmetric


@dataclass(frozen=True)
class TourTransfer:
    """Tours of one instance of TSPLIB."""

    name: str
    cities: int
    best: int  # best known length
    lengths: dict[str, int]  # by decoding, with the distances of TSPLIB
    flagged: bool  # the embedding reports a symmetry

    __repr__ = brief_fields


@dataclass(frozen=True, repr=False)
class TourEvaluation(Evaluation):
    """Tours of uniform instances, of transformed copies and of TSPLIB."""

    cities: int  # per test instance
    instances: int
    optimal_length: float  # mean of the shortest tours
    lengths: dict[str, float]  # mean by decoding
    flagged: int  # test instances that the embedding reports as symmetric
    copies: list[TourCopyResult]  # one per kind of copy
    transfer: list[TourTransfer]  # one per instance of TSPLIB

    def gap(self, decoding: str) -> float:
        """Return the mean excess over optimal tours, relative to their length."""
        return self.lengths[decoding] / self.optimal_length - 1

    def transfer_gap(self, decoding: str) -> float:
        """Return the mean gap to the best known lengths of TSPLIB."""
        gaps = [entry.lengths[decoding] / entry.best - 1 for entry in self.transfer]
        return sum(gaps) / len(gaps)

    def to_dict(self) -> dict[str, Any]:
        """Convert to nested dictionaries of JSON types, gaps included."""
        gaps: dict[str, Any] = {"gaps": {name: self.gap(name) for name in self.lengths}}
        if self.transfer:
            gaps["transfer_gaps"] = {name: self.transfer_gap(name) for name in DECODINGS}
        return {**super().to_dict(), **gaps}


def evaluate_tour_model(
    trained: TrainedTourModel, *, instances: int = 1000, data: str | None = None, seed: int = 0
) -> TourEvaluation:
    """Find tours of the published test instances, of transformed copies, and of TSPLIB.

    The shortest tours come from :func:`equigeo.datasets.optimal_lengths`, which caches them.

    Parameters
    ----------
    instances : int
        Number of test instances, the first of 10,000.
    data : str, optional
        Folder or archive of TSPLIB, for its Euclidean instances of at most 200 cities.
    seed : int, of the copies

    Examples
    --------
    >>> import os, tempfile
    >>> from unittest.mock import patch
    >>> from equigeo.mds import AttentionModel, AttentionModelConfig
    >>> from equigeo.tasks.tsp import TourConfig
    >>> model = AttentionModel(AttentionModelConfig("mds", 8, 2, 1, 8)).eval()  # not trained
    >>> trained = TrainedTourModel(model, (), TourConfig(cities=6), "0.2.0")
    >>> with tempfile.TemporaryDirectory() as folder:  # where shortest tours are kept
    ...     with patch.dict(os.environ, EQUIGEO_CACHE=folder):
    ...         evaluation = evaluate_tour_model(trained, instances=4)
    >>> evaluation.gap("greedy") >= evaluation.gap("every start") >= 0
    True
    """
    if not 1 <= instances <= TEST_INSTANCES:
        raise ValueError(f"instances must be 1 to {TEST_INSTANCES}, got {instances}")
    examples = [
        instance
        for instance in ([] if data is None else load_tsplib(data, most=LARGEST_TRANSFER))
        if instance.kind == "EUC_2D" and not instance.fixed and instance.best is not None
    ]
    cities = uniform_cities(instances, trained.config.cities)
    optimal = optimal_lengths(cities).mean().item()
    found = {name: trained.solve(cities, **choices) for name, choices in DECODINGS.items()}
    greedy = found["greedy"]
    return TourEvaluation(
        cities=trained.config.cities,
        instances=instances,
        optimal_length=optimal,
        lengths={name: tours.length.mean().item() for name, tours in found.items()},
        flagged=int(greedy.flagged.sum()),
        copies=[_copies(trained, cities, greedy, optimal, kind, seed) for kind in TOUR_COPIES],
        transfer=[_transfer(trained, instance) for instance in examples],
    )


def _copies(
    trained: TrainedTourModel, cities: Tensor, greedy: Tours, optimal: float, kind: str, seed: int
) -> TourCopyResult:
    # lengths of the originals: a scaled copy has others, and its gap is that of the same tour
    tours = trained.solve(tour_copies(cities, kind, seed))
    # as sets of edges, so that neither start nor direction counts
    same = (tours.edges() == greedy.edges()).all(-1)
    return TourCopyResult(
        kind=kind,
        identical=same.double().mean().item(),
        gap=tour_lengths(cities, tours.order).mean().item() / optimal - 1,
        flagged=int(tours.flagged.sum()),
    )


def _transfer(trained: TrainedTourModel, instance: TSPInstance) -> TourTransfer:
    """Decode instances scaled to the unit square, which a network without an embedding needs."""
    points = torch.as_tensor(instance.coordinates)
    low, high = points.amin(0), points.amax(0)
    square = (points - low)[None] / (high - low).max()
    found = {name: trained.solve(square, **choices) for name, choices in DECODINGS.items()}
    return TourTransfer(
        name=instance.name,
        cities=len(instance),
        best=instance.best or 0,
        lengths={n: instance.length(tours.order[0, 0].numpy()) for n, tours in found.items()},
        flagged=bool(found["greedy"].flagged),
    )


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
        return TourConfig.data if data is None else super().resolve_data(data)

    def load(self, config: TourConfig) -> Tensor:
        return validation_instances(config.cities)

    def describe(self, config: TourConfig, data: Tensor) -> str:
        return (
            f"{config.instances} random instances of {config.cities} cities per epoch, "
            f"{config.model} model"
        )

    def plan(self, config: TourConfig, data: Tensor, model: nn.Module | None = None) -> FitPlan:
        return plan_fit(config, data, model)

    def preset_model(self, config: TourConfig) -> AttentionModel:
        return AttentionModel.preset(config.preset, config.model)

    def evaluate(self, trained: TrainedTourModel, options: argparse.Namespace) -> EvaluationOutput:
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
        lines += ["", *_transfer_lines(evaluation)]
    return "\n".join(lines)


def _transfer_lines(evaluation: TourEvaluation) -> list[str]:
    """Return a line per TSPLIB instance with gaps to the best known length."""
    lines = [f"{'TSPLIB':<10}  {'best':>8}  " + "  ".join(DECODINGS)]
    for entry in evaluation.transfer:
        gaps = (f"{entry.lengths[d] / entry.best - 1:{len(d)}.2%}" for d in DECODINGS)
        lines.append(f"{printable(entry.name):<10}  {entry.best:8d}  " + "  ".join(gaps))
    means = (f"{evaluation.transfer_gap(d):{len(d)}.2%}" for d in DECODINGS)
    return [*lines, f"{'mean':<20}  " + "  ".join(means)]
