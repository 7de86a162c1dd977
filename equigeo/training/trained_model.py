"""Base class of trained models."""

from __future__ import annotations

import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from equigeo._core.brief import brief_fields
from equigeo._core.text import shorten
from equigeo.training.checkpoint import Checkpoint, CheckpointError, check_weights, stored_numbers
from equigeo.training.config import RunConfig
from equigeo.training.novelty import Novelty
from equigeo.training.process import isolated_streams

# At least, and for each tensor of the weights: presets take up to 30 calls, half a millisecond.
_CALLS = (2_000, 100)
# At least, and for each number of the weights: grids that kernels are drawn on take 2.3 of it.
_NUMBERS = (1 << 22, 8)


class AllocationLimit(TorchDispatchMode):
    """Raise for tensors that are more or larger than the weights in a file justify."""

    def __init__(
        self,
        weights: Iterable[object],  # contents of the file; only stored tensor elements count
    ) -> None:
        super().__init__()
        # A description of a few bytes can request a network of any size; it is rejected before its
        # memory is allocated.
        held = [stored_numbers(weight) for weight in weights]
        self._held = sum(held)
        self._calls = _CALLS[0] + _CALLS[1] * len(held)
        self._numbers = _NUMBERS[0] + _NUMBERS[1] * self._held

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else PyTorch imports its compiler, which takes as long as all of PyTorch

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Count a call and its requested elements, then run it."""
        self._calls -= 1
        asked = _asked(func, args)
        self._numbers -= asked
        if self._calls < 0 or self._numbers < 0:
            raise ValueError(
                f"the model that is described is much larger than the {self._held} numbers of "
                "the weights"
            )
        result = func(*args, **(kwargs or {}))
        is_new = not (func.is_view or func._schema.is_mutable)  # neither a view nor its argument
        if not asked and isinstance(result, Tensor) and is_new:
            self._numbers -= result.numel()
        return result


def _asked(func: Any, args: tuple[Any, ...]) -> int:
    """Return the number of elements that a factory call creates; 0 for other calls."""
    if any(isinstance(argument, Tensor) for argument in args):
        return 0
    if func._schema.name == "aten::eye":
        return math.prod((args * 2)[:2])
    size = args[0] if args else ()
    is_size = isinstance(size, (list, tuple)) and all(isinstance(n, int) for n in size)
    return math.prod(size) if is_size else 0


_Config = TypeVar("_Config", bound=RunConfig)
_Model = TypeVar("_Model", bound="TrainedModel[Any]")
# Exceptions of code that reads values of the wrong kind.
MISFITS: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
_NEEDED = {"epoch", "loss", "seconds"}
_LONGEST = 255  # characters of a class name, which may be the name of a folder


@dataclass(frozen=True, eq=False)
class TrainedModel(ABC, Generic[_Config]):
    """Result of a training run, as ``equigeo evaluate`` loads it; one subclass per task.

    Parameters
    ----------
    model : torch.nn.Module, in evaluation mode, on the CPU
    classes : tuple of str, in the order of the logits; empty without classes
    config : RunConfig, of the training
    version : str, of the library that trained it
    history : list of dict, loss and measures of every epoch
    novelty : Novelty, or another type of the task, optional
    samples : Tensor, (samples, 2), int64, optional
        Digests of the training samples and of their labels; None in old checkpoints.

    Attributes
    ----------
    task, what : str, name of the task in checkpoints, and of the model in error messages
    config_type : type, of the configuration

    Examples
    --------
    >>> from equigeo.tasks.affnist import ImageConfig, PlainCNN, TrainedImageClassifier
    >>> model = PlainCNN.preset("cnn", 10).eval()  # not trained
    >>> trained = TrainedImageClassifier(model, tuple("0123456789"), ImageConfig("mnist"), "0.2.0")
    >>> trained.epochs_done, trained.is_finished
    (0, False)
    """

    model: Any
    classes: tuple[str, ...]
    config: _Config
    version: str
    history: list[dict[str, Any]] = field(default_factory=list)
    novelty: Any = None
    samples: Tensor | None = None

    task: ClassVar[str]
    what: ClassVar[str]
    config_type: ClassVar[type[RunConfig]]

    __repr__ = brief_fields

    @property
    def epochs_done(self) -> int:
        """Number of finished epochs."""
        return len(self.history)

    @property
    def is_finished(self) -> bool:
        """Whether the run has reached its length."""
        return self.config.recipe.is_done(self.epochs_done, self.seconds)

    @property
    def seconds(self) -> float:
        """Time spent on finished epochs."""
        return float(sum(line["seconds"] for line in self.history))

    def to(self, device: torch.device) -> None:
        """Move the model to a device in place."""
        self.model.to(device)

    @classmethod
    @abstractmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        """Build a model from the result of ``model.config.to_dict()``."""

    @classmethod
    def read_novelty(cls, state: dict[str, Any], model: Any, classes: int) -> Any:
        """Build ``novelty`` from the untrusted content of a checkpoint, or raise."""
        return Novelty.from_state(state, classes, model.embedding_width)

    @classmethod
    def load(cls: type[_Model], path: str | os.PathLike[str]) -> _Model:
        """Load a checkpoint file without running code from it, or raise ``CheckpointError``."""
        checkpoint = Checkpoint.load(path, cls.task)
        try:
            described = checkpoint.config
            config = cls.config_type.from_dict(described["train"])
            model = cls.build_for(checkpoint, config)
            check_weights(model.state_dict(), checkpoint.state)
            model.load_state_dict(checkpoint.state)
            classes = _classes(described["classes"], model)
            version = _text("version", described["version"])
            history = read_history(checkpoint.training, config.recipe.epochs)
            novelty = None
            if checkpoint.novelty:
                novelty = cls.read_novelty(checkpoint.novelty, model, len(classes))
            samples = read_samples(checkpoint.training)
        except MISFITS as error:
            cause = shorten(" ".join(str(error).split()), 200)
            raise CheckpointError(
                f"{path}: does not fit this version's {cls.what} ({cause}); "
                "use the version that wrote it, or train again"
            ) from error
        return cls(model.eval(), classes, config, version, history, novelty, samples)

    def trained_on(self, digests: Tensor) -> int | None:
        """Count the samples with these input digests (samples,) in the training data.

        See :meth:`LabelledSource.digests`. None if the checkpoint does not record digests.
        """
        if self.samples is None:
            return None
        return int(torch.isin(digests, self.samples[:, 0]).sum())

    @classmethod
    def build_for(cls, checkpoint: Checkpoint, config: Any) -> Any:
        """Build the model of a checkpoint with initial weights, or raise ``ValueError``.

        A description of a model that is much larger than the weights is rejected.
        """
        # initial weights are drawn, then overwritten
        with isolated_streams(), AllocationLimit(checkpoint.state.values()):
            return cls.build(checkpoint.config["model"], config)


def _classes(names: Any, model: Any) -> tuple[str, ...]:
    """Return the class names, one per logit; tours have none."""
    number = getattr(model.config, "num_classes", 0)
    if not isinstance(names, (list, tuple)) or len(names) != number:
        raise ValueError(f"expected a list of {number} class names")
    classes = tuple(_text("a class name", name) for name in names)
    if len(set(classes)) != number:
        raise ValueError("two classes have one name")
    return classes


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ValueError(f"{what} must be a string of at most {_LONGEST} characters")
    return value


def read_history(
    training: dict[str, Any],
    epochs: int,  # largest number of lines
) -> list[dict[str, Any]]:
    """Validate and return the history of a checkpoint's ``training``."""
    history = training.get("history", [])
    if not isinstance(history, list) or len(history) > epochs:
        raise ValueError(f"its history is not a list of at most {epochs} epochs")
    for number, line in enumerate(history, 1):
        if not isinstance(line, dict) or not _NEEDED <= line.keys() or line["epoch"] != number:
            raise ValueError(f"line {number} of its history is not an epoch")
        needed = [line[name] for name in _NEEDED]
        others = [value for value in line.values() if value is not None]
        named = all(isinstance(name, str) for name in line)
        if not named or not all(map(_is_finite, [*needed, *others])):
            raise ValueError(f"line {number} of its history has entries that are not numbers")
    return history


def read_samples(training: Mapping[str, Any]) -> Tensor | None:
    """Validate and return the digests of the training samples, (samples, 2); None without."""
    samples = training.get("samples")
    if samples is None:
        return None
    is_tensor = isinstance(samples, Tensor) and samples.dtype == torch.int64
    if not is_tensor or samples.ndim != 2 or samples.shape[1] != 2 or not samples.is_contiguous():
        raise ValueError("its samples must be digests (samples, 2)")
    return samples


def _is_finite(value: Any) -> bool:
    # an integer may be larger than any floating number
    return isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
