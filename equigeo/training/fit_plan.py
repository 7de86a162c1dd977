"""Everything that a fit needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from equigeo.mesh import PrimalDualClassifier
from equigeo.training.epoch_batches import EpochBatches
from equigeo.training.labelled_graphs import LabelledGraphs
from equigeo.training.run_folder import RunFolder
from equigeo.training.train_config import TrainConfig


@dataclass(frozen=True, eq=False)
class FitPlan:
    """A model, its data and where to write.

    Parameters
    ----------
    folder : RunFolder
        Where to write.
    config : TrainConfig
        What to do.
    model : PrimalDualClassifier
        Fitted to the training data's mean and deviation; trained in place.
    train, test : LabelledGraphs
        The two parts of the data; ``test`` may be empty.
    description : dict of JSON types
        The ``config`` of the checkpoint.
    resumed : dict, optional
        The ``training`` of the checkpoint to continue.
    """

    folder: RunFolder
    config: TrainConfig
    model: PrimalDualClassifier
    train: LabelledGraphs
    test: LabelledGraphs
    description: dict[str, Any]
    resumed: dict[str, Any] | None

    @property
    def steps_per_epoch(self) -> int:
        """Length of an epoch."""
        return EpochBatches.count(len(self.train), self.config.recipe.batch_size)

    @property
    def first_epoch(self) -> int:
        """Epochs that are done."""
        return 0 if self.resumed is None else int(self.resumed["epochs"])

    def check(self) -> None:
        """See whether there are devices, and enough meshes for every process in every step.

        Raises
        ------
        ValueError
            If not.
        """
        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if gpus and self.config.devices > gpus:
            raise ValueError(f"devices must be at most {gpus} here, got {self.config.devices}")
        EpochBatches(
            self.train,
            self.config.recipe.batch_size,
            seed=0,
            epoch=0,
            num_processes=self.config.devices,
        )
