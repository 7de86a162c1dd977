"""The batches of one epoch, as a function of seed, epoch and process."""

from __future__ import annotations

import math

import numpy as np
from torch.utils.data import Dataset

from equigeo.training.labelled_source import AnyBatch, LabelledSource
from equigeo.training.random_state import derived_generator, seed_sequence


class EpochBatches(Dataset[AnyBatch]):
    """The steps of an epoch: shuffled, divided among processes, with noise.

    The permutation and the noise depend on (seed, epoch, step, process) alone: an epoch can be
    repeated, or resumed at any step, without any stored state. Sizes differ by at most one, so
    that no step normalises over a left-over sample or two.

    Parameters
    ----------
    source : LabelledSource
        Training samples.
    batch_size : int
        Samples per step over all processes.
    seed, epoch : int
        Position in the run.
    first_step : int
        Steps that are done already; position 0 is the one after them.
    process, num_processes : int
        Which share of every batch to give.
    noise : bool
        Add what training adds to the samples.

    Raises
    ------
    ValueError
        If a step would leave a process without as many samples as the source needs.
    """

    def __init__(
        self,
        source: LabelledSource,
        batch_size: int,
        *,
        seed: int,
        epoch: int,
        first_step: int = 0,
        process: int = 0,
        num_processes: int = 1,
        noise: bool = True,
    ) -> None:
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
        """Count the steps of an epoch."""
        return math.ceil(num_samples / batch_size)

    def __len__(self) -> int:
        """Count the steps that remain."""
        return len(self._steps) - self._first_step

    def __getitem__(self, position: int) -> AnyBatch:
        """Assemble the batch of a step, in parts where memory would not hold it."""
        step = self._first_step + position
        chosen = self._steps[step]
        share = np.array_split(chosen, self._num_processes)[self._process]
        position_in_run = (self._epoch, step, self._process)
        generator = derived_generator(self._seed, "jitter", *position_in_run)
        return self._source.divided_batch(
            share.tolist(), len(chosen), generator if self._noise else None
        )
