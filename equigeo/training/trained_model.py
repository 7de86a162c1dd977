"""What all trained models have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from equigeo.training.files.checkpoint import Checkpoint
from equigeo.training.files.errors import CheckpointError
from equigeo.training.random_state import isolated_streams
from equigeo.training.run_config import RunConfig

_Config = TypeVar("_Config", bound=RunConfig)
_Model = TypeVar("_Model", bound="TrainedModel[Any]")


@dataclass(frozen=True, eq=False)
class TrainedModel(ABC, Generic[_Config]):
    """What a training run produces and ``equigeo evaluate`` loads; one subclass for each task.

    Parameters
    ----------
    model : torch.nn.Module
        In evaluation mode, on the CPU.
    classes : tuple of str
        Class names in the order of the logits; none where there are no classes.
    config : RunConfig
        How it was trained.
    version : str
        Version of the library that trained it.
    history : list of dict
        Loss and measures of every epoch.

    Attributes
    ----------
    task : str
        The ``task`` of the checkpoints.
    what : str
        What error messages call the model.
    config_type : type
        Of the configuration.
    """

    model: Any
    classes: tuple[str, ...]
    config: _Config
    version: str
    history: list[dict[str, Any]] = field(default_factory=list)

    task: ClassVar[str]
    what: ClassVar[str]
    config_type: ClassVar[type[RunConfig]]

    @property
    def epochs_done(self) -> int:
        """Epochs that the run has finished."""
        return len(self.history)

    @property
    def is_finished(self) -> bool:
        """Whether no epoch is left."""
        return self.epochs_done >= self.config.recipe.epochs

    @classmethod
    @abstractmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        """Build a model.

        Parameters
        ----------
        model : dict of JSON types
            What ``model.config.to_dict()`` gave.
        config : RunConfig
            Of the run; of ``config_type``.

        Returns
        -------
        torch.nn.Module
            With its ``config``.

        Raises
        ------
        ValueError
            If the model's ``config`` is another one's.
        """

    @classmethod
    def load(cls: type[_Model], path: Path) -> _Model:
        """Read a checkpoint file without running code from it.

        Raises
        ------
        CheckpointError
            If the file is unusable or the model in it is another one.
        """
        checkpoint = Checkpoint.load(path, cls.task)
        try:
            described = checkpoint.config
            classes = tuple(described["classes"])
            if not all(isinstance(name, str) for name in classes):
                raise TypeError("class names must be strings")
            config = cls.config_type.from_dict(described["train"])
            with isolated_streams():  # initial weights are drawn, then overwritten
                model = cls.build(described["model"], config)
            model.load_state_dict(checkpoint.state)
            number = getattr(model.config, "num_classes", 0)  # tours have no classes
            if number != len(classes):
                raise ValueError(f"{len(classes)} names for {number} classes")
            version = str(described["version"])
            history = _history(checkpoint.training)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            cause = " ".join(str(error).split())[:200]
            raise CheckpointError(
                f"{path}: does not fit this version's {cls.what} ({cause}); "
                "use the version that wrote it, or train again"
            ) from error
        return cls(model.eval(), classes, config, version, history)


def _history(training: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines of the history, all with the keys that the report shows."""
    history = training.get("history", [])
    if not isinstance(history, list) or not all(
        isinstance(line, dict) and {"epoch", "loss", "seconds"} <= line.keys() for line in history
    ):
        raise ValueError("its history is not a list of epochs")
    return history
