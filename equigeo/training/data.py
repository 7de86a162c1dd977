"""Labeled samples and batches of them."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from equigeo._core.brief import brief_fields
from equigeo.training.process import derived_generator, seed_sequence


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """Joined inputs of several samples with their labels.

    Parameters
    ----------
    inputs : Tensor or PrimalDualGraph, argument of the model
    labels : Tensor, (samples,), int64
    total : int, samples of this step over all processes

    Examples
    --------
    >>> import torch
    >>> batch = LabelledBatch(torch.rand(4, 2), torch.tensor([0, 1, 1, 0]), total=4)
    >>> len(batch.parts)
    1
    """

    inputs: Any
    labels: Tensor
    total: int

    __repr__ = brief_fields

    def to(self, device: torch.device) -> LabelledBatch:
        """Move to a device."""
        if self.labels.device == device:
            return self
        return LabelledBatch(self.inputs.to(device), self.labels.to(device), self.total)

    @property
    def parts(self) -> tuple[LabelledBatch, ...]:
        """Parts that are run at once: the whole batch."""
        return (self,)


@dataclass(frozen=True, eq=False)
class DividedBatch:
    """Batch in parts that run one after the other to limit memory."""

    parts: tuple[LabelledBatch, ...]

    __repr__ = brief_fields

    def to(self, device: torch.device) -> DividedBatch:
        """Move to a device."""
        return DividedBatch(tuple(part.to(device) for part in self.parts))

    @property
    def labels(self) -> list[Any]:
        """Labels of all parts, which may differ in shape."""
        return [labels for part in self.parts for labels in part.labels]

    @property
    def total(self) -> int:
        """Samples of this step over all processes."""
        return self.parts[0].total


AnyBatch = LabelledBatch | DividedBatch


def digest(*values: Tensor) -> int:
    """Return a 64-bit hash of the dtypes, shapes and values of tensors."""
    found = hashlib.blake2b(digest_size=8)
    for value in values:
        array = value.detach().cpu().contiguous().numpy()
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(array.tobytes())
    return int.from_bytes(found.digest(), "little", signed=True)


class LabelledSource(ABC):
    """Labeled samples in memory; batches are assembled by position.

    ``smallest`` is the number of samples that a process needs per step; batch normalization needs
    two.
    """

    labels: Tensor
    smallest: ClassVar[int] = 2

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.labels)

    @abstractmethod
    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> Any:
        """Join the inputs of some samples, in the order of ``chosen`` (batch,), for the model.

        ``generator`` is the source of training noise; None adds no noise.
        """

    def batch(
        self,
        indices: Sequence[int],
        total: int | None = None,
        generator: torch.Generator | None = None,
    ) -> LabelledBatch:
        """Assemble a batch; ``total`` counts samples over all processes, by default those given."""
        chosen = torch.as_tensor(indices, dtype=torch.long)
        number = len(indices) if total is None else total
        return LabelledBatch(self.inputs(chosen, generator), self.labels[chosen], number)

    def split(self, indices: Sequence[int]) -> list[list[int]]:
        """Divide a batch into parts that fit in memory; by default one."""
        return [list(indices)]

    def divided_batch(
        self,
        indices: Sequence[int],
        total: int | None = None,
        generator: torch.Generator | None = None,
    ) -> AnyBatch:
        """Assemble a batch in the parts of :meth:`split`, with the arguments of :meth:`batch`."""
        number = len(indices) if total is None else total
        parts = [self.batch(part, number, generator) for part in self.split(indices)]
        if len(parts) == 1:
            return parts[0]
        return DividedBatch(tuple(self.of_step(part, indices) for part in parts))

    def of_epoch(self, seed: int, epoch: int) -> LabelledSource:
        """Return the samples of an epoch of a run, always as many; by default all."""
        return self

    def of_step(self, batch: LabelledBatch, chosen: Sequence[int]) -> LabelledBatch:
        """Return one of several parts or processes' batches, given all samples of the step.

        Sources whose losses are means over other items than samples count these here.
        """
        return batch

    def digests(self) -> Tensor | None:
        """Return digests of every sample without noise and of its label, (samples, 2), int64.

        None for samples that are drawn during training.
        """
        return None

    def batches(self, batch_size: int) -> Iterator[LabelledBatch]:
        """Iterate over all samples in order and without noise, ``batch_size`` at a time."""
        for start in range(0, len(self), batch_size):
            yield self.batch(range(start, min(start + batch_size, len(self))))


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
        source = source.of_epoch(seed, epoch)
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
        batch = self._source.divided_batch(
            share.tolist(), len(chosen), generator if self._noise else None
        )
        if self._num_processes == 1:
            return batch
        parts = tuple(self._source.of_step(part, chosen.tolist()) for part in batch.parts)
        return parts[0] if len(parts) == 1 else DividedBatch(parts)
