"""Inputs of a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

import equigeo
from equigeo._core.brief import brief_fields
from equigeo.training.config import RunConfig
from equigeo.training.data import EpochBatches, LabelledSource
from equigeo.training.novelty import Embedded
from equigeo.training.objective import Objective
from equigeo.training.process import count_gpus


@dataclass(frozen=True, eq=False)
class FitPlan:
    """Model, data and evaluation of a fit.

    Parameters
    ----------
    model : torch.nn.Module
        With a ``config``; trained in place.
    classes : tuple of str, in the order of the logits; empty without classes
    evaluate : callable
        Returns the entries of the history of a model, such as ``test_accuracy``. Processes receive
        copies of it and of ``embed``.
    uses_all_parameters : bool, whether a gradient reaches every parameter of the model
    embed : callable, optional
        Returns the arguments of :meth:`equigeo.training.Novelty.fit` for a trained model.

    Examples
    --------
    >>> from equigeo.tasks.tsp import TourConfig
    >>> from equigeo.tasks.tsp.run import RandomInstances
    >>> from equigeo.training import CrossEntropy
    >>> config, source = TourConfig(), RandomInstances(1000, 20)
    >>> plan = FitPlan(config, nn.Linear(2, 3), (), source, CrossEntropy(), lambda model: {})
    >>> plan.steps_per_epoch == -(-1000 // config.recipe.batch_size)
    True
    """

    config: RunConfig
    model: Any
    classes: tuple[str, ...]
    train: LabelledSource
    objective: Objective
    evaluate: Callable[[nn.Module], dict[str, float]]
    uses_all_parameters: bool = True
    embed: Callable[[nn.Module], Embedded] | None = None

    __repr__ = brief_fields

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps per epoch."""
        return EpochBatches.count(len(self.train), self.config.recipe.batch_size)

    def description(self) -> dict[str, Any]:
        """Return the description of model and run for a checkpoint, as JSON types."""
        return {
            "model": self.model.config.to_dict(),
            "classes": list(self.classes),
            "train": self.config.to_dict(),
            "version": equigeo.__version__,
        }

    def check(self) -> None:
        """Raise unless there are enough devices, and enough samples per process and step."""
        gpus = count_gpus()
        if gpus and self.config.devices > gpus:
            raise ValueError(f"devices must be at most {gpus} here, got {self.config.devices}")
        EpochBatches(
            self.train,
            self.config.recipe.batch_size,
            seed=0,
            epoch=0,
            num_processes=self.config.devices,
        )
