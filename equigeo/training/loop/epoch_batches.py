"""Batches of one epoch, determined by seed, epoch and process."""

from __future__ import annotations

import math

import numpy as np
from torch.utils.data import Dataset

from equigeo.training.labelled_source import AnyBatch, LabelledSource
from equigeo.training.random_state import derived_generator, seed_sequence


class EpochBatches(Dataset[AnyBatch]):
    """Shuffled steps of an epoch, divided among processes, with noise."""

    def __init__(
        self,
        source: LabelledSource,
        batch_size: int,  # samples per step over all processes
        *,
        seed: int,
        epoch: int,
        first_step: int = 0,  # steps already done; position 0 is the next one
        process: int = 0,  # index of this process
        num_processes: int = 1,
        noise: bool = True,
    ) -> None:
        # Order and noise depend only on (seed, epoch, step, process), so that epochs can be
        # repeated and resumed without stored state.
        order = np.random.default_rng(seed_sequence(seed, "order", epoch)).permutation(len(source))
        # parts differ by one at most, where slices would leave a remainder
        self._steps = np.array_split(order, self.count(len(source), batch_size))
        smallest = min(len(step) for step in self._steps)
        if smallest < source.smallest * num_processes:
            number = "two samples" if source.smallest == 2 else f"{source.smallest} sample"
            raise ValueError(
                f"every process needs at least {number} per step, got {smallest} samples "
                f"for {num_processes} processes; use more samples, larger batches or fewer devices"
            )
        self._source, self._first_step = source, first_step
        self._seed, self._epoch = seed, epoch
        self._process, self._num_processes = process, num_processes
        self._noise = noise

    @staticmethod
    def count(num_samples: int, batch_size: int) -> int:
        """Return the number of steps of an epoch."""
        return math.ceil(num_samples / batch_size)

    def __len__(self) -> int:
        """Return the number of remaining steps."""
        return len(self._steps) - self._first_step

    def __getitem__(self, position: int) -> AnyBatch:
        """Assemble the batch of a step, divided into parts if memory requires it."""
        step = self._first_step + position
        chosen = self._steps[step]
        share = np.array_split(chosen, self._num_processes)[self._process]
        position_in_run = (self._epoch, step, self._process)
        generator = derived_generator(self._seed, "jitter", *position_in_run)
        return self._source.divided_batch(
            share.tolist(), len(chosen), generator if self._noise else None
        )
