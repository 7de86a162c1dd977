"""Configuration, data, fit, evaluation and command-line task of tours."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal

import torch
from torch import Tensor, nn

from equigeo._core.brief import brief_fields, shown
from equigeo._core.config import within
from equigeo._core.text import printable
from equigeo.datasets import TSPInstance, load_tsplib, optimal_lengths, uniform_cities
from equigeo.mds import AttentionModel, Tours, tour_lengths
from equigeo.nn.module import evaluating
from equigeo.tasks.common.arguments import Argument, natural, positive
from equigeo.tasks.common.measures import cloud_copies
from equigeo.tasks.task import Evaluation, EvaluationOutput, Task
from equigeo.training.config import Recipe, RunConfig
from equigeo.training.data import LabelledBatch, LabelledSource
from equigeo.training.objective import FitPlan, Objective
from equigeo.training.process import derived_generator
from equigeo.training.trained_model import TrainedModel

UNIFORM: Final = "uniform"
TOUR_RECIPES: Final[dict[str, Recipe]] = {
    "default": Recipe(
        epochs=15, batch_size=64, learning_rate=1e-3, optimizer="adamw", schedule="one_cycle",
        weight_decay=0.01,
    ),
    # The published model, trained as POMO is.
    "paper": Recipe(
        epochs=200, batch_size=64, learning_rate=1e-4, optimizer="adam", schedule="constant",
        weight_decay=1e-6,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class TourConfig(RunConfig):
    """Configuration of a run on the travelling-salesman problem, saved as ``config.json``.

    Parameters
    ----------
    data : {"uniform"}
        Cities are drawn uniformly from the unit square in every step.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``; label smoothing and jitter of the recipe must be 0.
    preset : {"default", "paper"}
        Size of the model, and recipe.
    model : {"mds", "plain"}
        Whether the network reads embedded cities or their coordinates.
    cities, instances : int
        Cities per instance, at least 3, and instances per epoch.

    Examples
    --------
    >>> config = TourConfig(model="plain", cities=50)
    >>> TourConfig.from_dict(config.to_dict()) == config
    True
    """

    data: str = UNIFORM
    recipe: Recipe = TOUR_RECIPES["default"]
    preset: Literal["default", "paper"] = "default"
    model: Literal["mds", "plain"] = "mds"
    cities: int = within(3, 10_000, default=20)
    instances: int = within(1, 10**8, default=100_000)

    recipes: ClassVar[Mapping[str, Recipe]] = TOUR_RECIPES
    unused: ClassVar[tuple[str, ...]] = (
        *RunConfig.unused, "label_smoothing", "logit_adjustment", "jitter",
    )  # fmt: skip
    samples: ClassVar[str] = "tours"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data != UNIFORM:
            raise ValueError(f"data must be {UNIFORM}, got {shown(self.data)}")


@dataclass(frozen=True, eq=False)
class RandomInstances(LabelledSource):
    """Source of cities uniform in the unit square; labels are zeros."""

    number: int  # instances per epoch
    cities: int  # per instance
    labels: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Set labels that take no memory."""
        labels = torch.zeros((), dtype=torch.int64).expand(self.number)
        object.__setattr__(self, "labels", labels)

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        if generator is not None:
            shape = (len(chosen), self.cities, 2)
            return torch.rand(shape, generator=generator, dtype=torch.float64)
        # a stream for each instance, which does not depend on the others
        streams = (derived_generator(0, "instance", i) for i in chosen.tolist())
        drawn = [torch.rand(self.cities, 2, generator=g, dtype=torch.float64) for g in streams]
        return torch.stack(drawn)


_NUMBER = 1000


def validation_instances(cities: int) -> Tensor:
    """Return the thousand validation instances, (1000, cities, 2) float64, equal for all seeds.

    They are uniform in the unit square, and neither training nor test instances.

    Examples
    --------
    >>> validation_instances(20).shape
    torch.Size([1000, 20, 2])
    """
    generator = derived_generator(0, "instances", _NUMBER)
    return torch.rand((_NUMBER, cities, 2), generator=generator, dtype=torch.float64)


_LEAST = 1e-4  # what is below is rounding


@dataclass(frozen=True)
class PolicyGradient(Objective):
    """REINFORCE with one sampled tour per start city and their mean length as the baseline."""

    measure: ClassVar[str] = "length"
    form: ClassVar[str] = ".3f"
    evaluated: ClassVar[str] = "greedy_length"

    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        # REINFORCE: Williams, 1992; shared baseline of all starts: POMO, Kwon et al., 2020. The
        # gradient estimates that of the expected length; the value of the loss has no meaning.
        instances, cities, _ = batch.inputs.shape
        # one tour from every city: solutions are symmetric in where they start
        starts = torch.arange(cities, device=batch.inputs.device).expand(instances, -1)
        tours = model(batch.inputs, starts, sample=True)
        length = tours.length.detach()  # lengths are rewards, only choices have a gradient
        mean = length.mean(dim=1, keepdim=True)
        above = length - mean
        # over the whole batch: instances without much to gain then weigh little
        deviation = above.square().mean().sqrt().maximum(_LEAST * mean.mean())
        # equal tours have no deviation at all, and no advantage
        advantage = (above / torch.where(deviation > 0, deviation, 1)).to(tours.log_prob.dtype)
        return (advantage * tours.log_prob).mean(dim=1).sum(), mean.sum()


_AT_ONCE = 2_000_000  # scores of a step, over instances, tours, heads and cities: bounds memory


def find_tours(
    model: Any,
    cities: Tensor,  # (B, cities, 2)
    *,
    every_start: bool = False,
    augment: bool = False,
) -> Tours:
    """Solve instances in evaluation mode, some at a time; results are on the CPU."""
    device = next(model.parameters()).device
    number = cities.shape[1]
    tours = number if every_start else number // 4 + 1  # of which the encoder costs as much
    with evaluating(model):
        found = [
            model.solve(part.to(device), every_start=every_start, augment=augment)
            for part in cities.split(max(1, _AT_ONCE // (tours * number * model.config.heads)))
        ]
    return Tours(
        *(
            torch.cat([getattr(part, name).cpu() for part in found])
            for name in ("order", "length", "log_prob", "flagged")
        )
    )


def _evaluate(cities: Tensor, model: nn.Module) -> dict[str, float]:
    return {
        "greedy_length": find_tours(model, cities).length.mean().item(),
        "multistart_length": find_tours(model, cities, every_start=True).length.mean().item(),
    }


class TrainedTourModel(TrainedModel[TourConfig]):
    """Trained tour model, as ``equigeo evaluate`` loads it."""

    task, what, config_type = "tsp", "model of tours", TourConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        return AttentionModel.from_config(model)

    def solve(self, cities: Tensor, *, every_start: bool = False, augment: bool = False) -> Tours:
        """Return the best tour of each instance (B, cities, 2), computed in float64.

        ``every_start`` and ``augment`` are those of :meth:`equigeo.mds.AttentionModel.solve`.
        """
        exact = copy.deepcopy(self.model).double()
        return find_tours(exact, cities.double(), every_start=every_start, augment=augment)


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
        if model is None:
            model = self._initial_model(config)
        source = RandomInstances(config.instances, config.cities)
        return FitPlan(config, model, (), source, PolicyGradient(), partial(_evaluate, data))

    def preset_model(self, config: TourConfig, num_classes: int = 2) -> AttentionModel:
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
    for one in evaluation.copies:
        lines.append(f"{one.kind:<14}  {one.identical:9.2%}  {one.gap:7.2%}  {one.flagged:7d}")
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
