"""Training batches for Lightning."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from equigeo.training.labelled_source import AnyBatch, LabelledSource
from equigeo.training.loop.epoch_batches import EpochBatches
from equigeo.training.loop.lightning import L
from equigeo.training.run_config import RunConfig


class EpochDataModule(L.LightningDataModule):
    """The training batches of every epoch.

    Samples stay in memory and a batch is assembled in about a millisecond, so no worker processes
    are used. The trainer has to ask for a new loader every epoch
    (``reload_dataloaders_every_n_epochs=1``): an epoch's batches are an immutable object.

    Parameters
    ----------
    source : LabelledSource
        Training samples.
    config : RunConfig
        Seed and recipe.
    first_epoch, first_step : int
        Epochs, and steps of the next one, that an earlier session has done; this trainer counts
        from there.
    """

    def __init__(
        self, source: LabelledSource, config: RunConfig, first_epoch: int = 0, first_step: int = 0
    ) -> None:
        super().__init__()
        self._source, self._config = source, config
        self._first_epoch, self._first_step = first_epoch, first_step

    def train_dataloader(self) -> DataLoader[AnyBatch]:
        """Give the batches of the trainer's current epoch."""
        trainer, recipe = self.trainer, self._config.recipe
        if trainer is None:
            raise RuntimeError("an EpochDataModule gives its batches to a trainer")
        batches = EpochBatches(
            self._source,
            recipe.batch_size,
            seed=self._config.seed,
            epoch=self._first_epoch + trainer.current_epoch,
            first_step=self._first_step if trainer.current_epoch == 0 else 0,
            process=trainer.global_rank,
            num_processes=trainer.world_size,
        )
        return DataLoader(batches, batch_size=None, collate_fn=_as_is)

    def transfer_batch_to_device(
        self, batch: AnyBatch, device: torch.device, dataloader_idx: int
    ) -> AnyBatch:
        """Move a batch."""
        return batch.to(device)


def _as_is(batch: Any) -> Any:
    return batch
