"""A trained mesh classifier with the names of its classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from equigeo.mesh import PrimalDualClassifier, TriangleMesh
from equigeo.training.checkpoint import Checkpoint
from equigeo.training.classify_graphs import classify_graphs
from equigeo.training.errors import CheckpointError
from equigeo.training.random_state import isolated_streams
from equigeo.training.train_config import TrainConfig

TASK: Final = "mesh-classification"


@dataclass(frozen=True, eq=False)
class TrainedClassifier:
    """What a training run produces and ``equigeo evaluate`` and ``predict`` load.

    Parameters
    ----------
    model : PrimalDualClassifier
        In evaluation mode, on the CPU.
    classes : tuple of str
        Class names in the order of the logits.
    config : TrainConfig
        How it was trained.
    version : str
        Version of the library that trained it.
    history : list of dict
        Loss and accuracy of every epoch.
    """

    model: PrimalDualClassifier
    classes: tuple[str, ...]
    config: TrainConfig
    version: str
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> TrainedClassifier:
        """Read a checkpoint file without running code from it.

        Raises
        ------
        CheckpointError
            If the file is unusable or the model in it is another one.
        """
        checkpoint = Checkpoint.load(path, TASK)
        try:
            described = checkpoint.config
            classes = tuple(described["classes"])
            if not all(isinstance(name, str) for name in classes):
                raise TypeError("class names must be strings")
            with isolated_streams():  # initial weights are drawn, then overwritten
                model = PrimalDualClassifier.from_config(described["model"])
            model.load_state_dict(checkpoint.state)
            if model.settings.num_classes != len(classes):
                raise ValueError(f"{len(classes)} names for {model.settings.num_classes} classes")
            config = TrainConfig.from_dict(described["train"])
            version = str(described["version"])
            history = _history(checkpoint.training)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            cause = " ".join(str(error).split())[:200]
            raise CheckpointError(
                f"{path}: does not fit this version's mesh classifier ({cause}); "
                "use the version that wrote it, or train again"
            ) from error
        return cls(model.eval(), classes, config, version, history)

    def logits(self, meshes: Sequence[TriangleMesh]) -> Tensor:
        """Classify meshes.

        Returns
        -------
        Tensor, (meshes, classes)
            Logits.

        Equivariance
        ------------
        Invariant to rotation, reflection, translation, scale, and the order of faces and vertices
        with the default preset.
        """
        return classify_graphs(self.model, [self.model.graph(mesh) for mesh in meshes])


def _history(training: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines of the history, all with the keys that the report shows."""
    history = training.get("history", [])
    if not isinstance(history, list) or not all(
        isinstance(line, dict) and {"epoch", "loss", "seconds"} <= line.keys() for line in history
    ):
        raise ValueError("its history is not a list of epochs")
    return history
