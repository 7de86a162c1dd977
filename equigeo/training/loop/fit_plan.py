"""Inputs of a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

import equigeo
from equigeo._brief import brief_fields
from equigeo.training.labelled_source import LabelledSource
from equigeo.training.loop.chosen_device import count_gpus
from equigeo.training.loop.epoch_batches import EpochBatches
from equigeo.training.novelty import Embedded
from equigeo.training.objective import Objective
from equigeo.training.run_config import RunConfig


@dataclass(frozen=True, eq=False)
class FitPlan:
    """Model, data and evaluation of a fit.

    Parameters
    ----------
    config : RunConfig
        What to do.
    model : torch.nn.Module
        Ready for the training samples; trained in place. Has a ``config``, an
        :class:`equigeo.nn.config.Config`.
    classes : tuple of str
        Class names in the order of the logits; none where there are no classes.
    train : LabelledSource
        Training samples.
    objective : Objective
        What to minimise on them.
    evaluate : callable
        Gives what the history says of a model after an epoch that is evaluated, such as
        ``test_accuracy``. Processes receive copies of it.
    uses_all_parameters : bool
        Whether a gradient reaches every parameter of the model.
    embed : callable, optional
        Gives what a trained model makes of the training samples before its last layers, and their
        classes, to :meth:`equigeo.training.novelty.Novelty.fit`. Processes receive copies of it.

    Examples
    --------
    >>> from equigeo.tasks.tsp import TourConfig
    >>> from equigeo.tasks.tsp.data import RandomInstances
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
        """Raise unless there are devices, and enough samples per process and step.

        Raises
        ------
        ValueError
            If not.
        """
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
