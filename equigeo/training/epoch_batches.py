"""The batches of one epoch, as a function of seed, epoch and process."""

from __future__ import annotations

import math

import numpy as np
from torch.utils.data import Dataset

from equigeo.training.labelled_batch import LabelledBatch
from equigeo.training.labelled_graphs import LabelledGraphs
from equigeo.training.random_state import derived_generator, seed_sequence


class EpochBatches(Dataset[LabelledBatch]):
    """Batch number ``step`` of an epoch: shuffled, divided among processes, jittered.

    The permutation and the noise depend on (seed, epoch, step, process) alone: an epoch can be
    repeated or resumed without any stored state. Sizes differ by at most one, so that no step
    normalises over a left-over mesh or two.

    Parameters
    ----------
    source : LabelledGraphs
        Training graphs.
    batch_size : int
        Meshes per step over all processes.
    seed, epoch : int
        Position in the run.
    jitter : float
        Deviation of the noise on vertices, in mean edge lengths.
    process, num_processes : int
        Which share of every batch to give.

    Raises
    ------
    ValueError
        If a step would leave a process without two meshes (normalisation needs two).
    """

    def __init__(
        self,
        source: LabelledGraphs,
        batch_size: int,
        *,
        seed: int,
        epoch: int,
        jitter: float = 0.0,
        process: int = 0,
        num_processes: int = 1,
    ) -> None:
        order = np.random.default_rng(seed_sequence(seed, "order", epoch)).permutation(len(source))
        self._steps = np.array_split(order, self.count(len(source), batch_size))
        smallest = min(len(step) for step in self._steps)
        if smallest < 2 * num_processes:
            raise ValueError(
                f"every process needs at least two meshes per step, got {smallest} meshes "
                f"for {num_processes} processes; use more meshes, larger batches or fewer devices"
            )
        self._source, self._jitter = source, jitter
        self._seed, self._epoch = seed, epoch
        self._process, self._num_processes = process, num_processes

    @staticmethod
    def count(num_meshes: int, batch_size: int) -> int:
        """Count the steps of an epoch."""
        return math.ceil(num_meshes / batch_size)

    def __len__(self) -> int:
        """Count the steps."""
        return len(self._steps)

    def __getitem__(self, step: int) -> LabelledBatch:
        """Assemble the batch of a step."""
        chosen = self._steps[step]
        share = np.array_split(chosen, self._num_processes)[self._process]
        batch = self._source.batch(share.tolist(), total=len(chosen))
        if self._jitter == 0:
            return batch
        generator = derived_generator(self._seed, "jitter", self._epoch, step, self._process)
        return LabelledBatch(batch.graph.jitter(self._jitter, generator), batch.labels, batch.total)
