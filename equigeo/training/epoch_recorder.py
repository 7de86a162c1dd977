"""What is written at the end of every epoch."""

from __future__ import annotations

import json
import math
import time
from typing import Any

from equigeo.training.atomic_write import atomic_write
from equigeo.training.checkpoint import Checkpoint
from equigeo.training.classify_graphs import classify_graphs
from equigeo.training.labelled_graphs import LabelledGraphs
from equigeo.training.lightning import L
from equigeo.training.mesh_classification import MeshClassification
from equigeo.training.run_folder import RunFolder
from equigeo.training.train_config import TrainConfig
from equigeo.training.trained_classifier import TASK


class EpochRecorder(L.Callback):
    """Write checkpoint and history after every epoch, atomically, from the first process.

    The checkpoint is always that of the last epoch: nothing is selected by test accuracy.

    Parameters
    ----------
    folder : RunFolder
        Where to write.
    config : TrainConfig
        When to evaluate.
    description : dict of JSON types
        The ``config`` of the checkpoint.
    test : LabelledGraphs
        What to evaluate on; may be empty.
    history : list of dict
        Epochs that an earlier run has done.
    """

    def __init__(
        self,
        folder: RunFolder,
        config: TrainConfig,
        description: dict[str, Any],
        test: LabelledGraphs,
        history: list[dict[str, Any]],
    ) -> None:
        self._folder, self._config, self._description = folder, config, description
        self._test, self._history = test, list(history)
        self._started = 0.0

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Start the clock."""
        self._started = time.perf_counter()

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Add a line to the history and write both files."""
        if not isinstance(module, MeshClassification):
            raise TypeError(f"expected a MeshClassification, got {type(module).__name__}")
        seconds = time.perf_counter() - self._started
        loss, accuracy = module.tally(over_processes=True)
        if not math.isfinite(loss):
            raise ValueError(
                f"the loss of epoch {module.epoch + 1} is {loss}: training diverged; the last "
                f"checkpoint is kept, lower the learning rate ({self._config.recipe.learning_rate})"
            )
        if not trainer.is_global_zero:
            return
        line = {
            "epoch": module.epoch + 1,
            "loss": loss,
            "train_accuracy": accuracy,
            "test_accuracy": self._evaluate(module),
            "seconds": seconds,
        }
        self._history.append(line)
        training = module.training_state() | {"history": self._history}
        state = module.evaluated_model().state_dict()
        Checkpoint(TASK, self._description, state, training).save(self._folder.checkpoint)
        text = json.dumps(self._history, indent=1, allow_nan=False) + "\n"
        atomic_write(self._folder.history, lambda file: file.write(text.encode()))

    def _evaluate(self, module: MeshClassification) -> float | None:
        """Give the test accuracy where it is due."""
        done, every = module.epoch + 1, self._config.evaluate_every
        due = done == self._config.recipe.epochs or (every > 0 and done % every == 0)
        if not due or len(self._test) == 0:
            return None
        logits = classify_graphs(module.evaluated_model(), self._test.graphs)
        return (logits.argmax(dim=1) == self._test.labels).double().mean().item()
