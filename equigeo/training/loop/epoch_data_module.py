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
    """Training batches of every epoch; needs ``reload_dataloaders_every_n_epochs=1``."""

    def __init__(
        self,
        source: LabelledSource,
        config: RunConfig,
        first_epoch: int = 0,  # epochs done by earlier sessions
        first_step: int = 0,  # steps of the next epoch done by earlier sessions
    ) -> None:
        super().__init__()
        # No worker processes: assembling a batch in memory takes about a millisecond.
        self._source, self._config = source, config
        self._first_epoch, self._first_step = first_epoch, first_step

    def train_dataloader(self) -> DataLoader[AnyBatch]:
        """Return the batches of the trainer's current epoch."""
        trainer: Any = self.trainer  # set by Lightning
        recipe = self._config.recipe
        batches = EpochBatches(
            self._source,
            recipe.batch_size,
            seed=self._config.seed,
            epoch=self._first_epoch + trainer.current_epoch,
            first_step=self._first_step if trainer.current_epoch == 0 else 0,
            process=trainer.global_rank,
            num_processes=trainer.world_size,
        )
        return DataLoader(batches, batch_size=None, collate_fn=_unchanged)

    def transfer_batch_to_device(
        self, batch: AnyBatch, device: torch.device, dataloader_idx: int
    ) -> AnyBatch:
        """Move a batch."""
        return batch.to(device)


def _unchanged(batch: Any) -> Any:
    return batch
