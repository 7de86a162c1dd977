"""Configuration, data, fit and trained model of tours."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal

import torch
from torch import Tensor, nn

from equigeo._core.brief import shown
from equigeo._core.config import Range
from equigeo.mds import AttentionModel, Tours
from equigeo.nn.module import evaluating
from equigeo.training.config import Recipe, RunConfig
from equigeo.training.data import LabelledBatch, LabelledSource
from equigeo.training.objective import Objective
from equigeo.training.plan import FitPlan
from equigeo.training.process import derived_generator, enter_stream
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
    cities: int = 20
    instances: int = 100_000

    recipes: ClassVar[Mapping[str, Recipe]] = TOUR_RECIPES
    unused: ClassVar[tuple[str, ...]] = (
        *RunConfig.unused, "label_smoothing", "logit_adjustment", "jitter",
    )  # fmt: skip
    samples: ClassVar[str] = "tours"
    ranges: ClassVar[Mapping[str, Range]] = {
        **RunConfig.ranges,
        "cities": Range(3, 10_000),
        "instances": Range(1, 10**8),
    }

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
