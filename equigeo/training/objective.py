"""Objectives of training, and inputs of a fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import equigeo
from equigeo._core.brief import brief_fields
from equigeo.training.config import Recipe, RunConfig
from equigeo.training.data import EpochBatches, LabelledBatch, LabelledSource
from equigeo.training.process import count_gpus


class Objective(ABC):
    """Loss of a batch with an interpretable measure.

    Attributes
    ----------
    measure : str, name of the measure; ``train_<measure>`` in the history
    form : str, format specification of the measure
    evaluated : str, entry of the history that is None after epochs without evaluation

    Examples
    --------
    >>> import torch
    >>> class Squares(Objective):
    ...     measure, form, evaluated = "error", ".3f", "test_error"
    ...     def sums(self, model, batch):
    ...         differences = model(batch.inputs) - batch.labels
    ...         return differences.square().sum(), differences.abs().sum()
    >>> batch = LabelledBatch(torch.tensor([1.0, 2.0]), torch.tensor([0, 0]), total=2)
    >>> Squares().sums(nn.Identity(), batch)
    (tensor(5.), tensor(3.))
    """

    measure: ClassVar[str] = "accuracy"
    form: ClassVar[str] = ".1%"
    evaluated: ClassVar[str] = "test_accuracy"

    @abstractmethod
    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Return loss (with a gradient) and measure, summed over the samples of a process, ()."""

    def counted(self, batch: LabelledBatch) -> int | None:
        """Return the number of samples in the sums, by which means are divided; None for all."""
        return None


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Cross-entropy of logits, with accuracy as the measure.

    Parameters
    ----------
    label_smoothing : float
        Share of the target spread over all classes, in [0, 1).
    adjustment : tuple of float
        Added to the logit of every class in the loss only; empty for none. Menon et al., "Long-tail
        learning via logit adjustment", ICLR 2021.

    Examples
    --------
    >>> import torch
    >>> batch = LabelledBatch(torch.eye(2), torch.tensor([0, 0]), 2)
    >>> CrossEntropy().sums(nn.Identity(), batch)[1]
    tensor(1)
    """

    label_smoothing: float = 0.0
    adjustment: tuple[float, ...] = ()

    __repr__ = brief_fields

    @classmethod
    def of(cls, recipe: Recipe, labels: Tensor, num_classes: int) -> CrossEntropy:
        """Build the objective of a recipe from the labels (samples,) of all training samples."""
        if recipe.logit_adjustment == 0:
            return cls(recipe.label_smoothing)
        # a class without samples would have the logarithm of 0
        counts = torch.bincount(labels, minlength=num_classes).clamp_min(1).double()
        logarithms = recipe.logit_adjustment * (counts / counts.sum()).log()
        return cls(recipe.label_smoothing, tuple(logarithms.tolist()))

    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        logits = model(batch.inputs)
        right = logits.detach().argmax(dim=1) == batch.labels
        return self.loss(logits, batch.labels), right.sum()

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Sum losses over samples; all logits of a sample (B, classes, *) are one classification.

        ``targets`` (B,) are positions among the flattened logits of a sample.
        """
        if self.adjustment:
            ones = [1] * (logits.ndim - 2)
            logits = logits + logits.new_tensor(self.adjustment).view(-1, *ones)
        return F.cross_entropy(
            logits.flatten(1), targets, label_smoothing=self.label_smoothing, reduction="sum"
        )


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
        copies of it and of ``novelty``.
    uses_all_parameters : bool, whether a gradient reaches every parameter of the model
    novelty : callable, optional
        Returns the :class:`equigeo.training.Novelty` of a trained model, or another object with a
        ``state_dict`` of tensors, or None.

    Examples
    --------
    >>> from equigeo.tasks.tsp import TourConfig
    >>> from equigeo.tasks.tsp.task import RandomInstances
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
    novelty: Callable[[nn.Module], Any] | None = None

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
            num_processes=self.config.processes,
        )


def known_gradients(
    value: Tensor,  # scalar without graph
    by: Sequence[Tensor],  # tensors that it depends on
    slopes: Sequence[Tensor],  # gradient of each
) -> Tensor:
    """Attach precomputed gradients to a scalar, which becomes differentiable once."""
    return _Known.apply(value, *by, *slopes)


class _Known(torch.autograd.Function):
    """Autograd function of a scalar, its inputs and as many gradients."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *given: Tensor) -> Tensor:
        ctx.save_for_backward(*given[len(given) // 2 :])
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor | None, ...]:
        slopes = [arriving[0] * slope for slope in ctx.saved_tensors]
        return (None, *slopes, *(None for _ in slopes))
