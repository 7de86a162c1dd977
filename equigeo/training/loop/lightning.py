"""Import of Lightning with a remedy if it is missing, and without its advice."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader

from equigeo.training.config import RunConfig
from equigeo.training.data import AnyBatch, EpochBatches, LabelledSource

try:
    import lightning as L
except ImportError as _error:
    raise ImportError("training needs Lightning: pip install 'lightning>=2.6,<3'") from _error

__all__ = ["L", "quiet_lightning", "silence_lightning"]

_ADVICE = (
    ".*does not have many workers.*",  # batches are assembled in memory
    ".*GPU available but not used.*",
    ".*isinstance\\(treespec, LeafSpec\\).*",  # Lightning's own use of a deprecated test
    ".*is smaller than the logging interval.*",
    "Grad strides do not match bucket view strides",  # of matrices with one row
)
_LOGGERS = ("lightning.pytorch", "lightning.fabric")


def silence_lightning() -> None:
    """Hide Lightning's advice for the rest of the process."""
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in _ADVICE:
        warnings.filterwarnings("ignore", message=message)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide hardware inventories and tips in a block; other warnings stay."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        with warnings.catch_warnings():
            silence_lightning()
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


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
