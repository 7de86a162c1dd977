"""Random transforms of every digit, rendered on demand."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo.datasets.digits.load_digits import SPLITS
from equigeo.datasets.digits.warp_digits import warp_digits


class TransformedDigits(ABC):
    """Data set of (index, variant) pairs, ordered by index, then by variant."""

    _stream: str
    _draws: int

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        split: str,
        variants: Sequence[int] = range(32),
        seed: int = 0,
    ) -> None:
        if images.ndim != 3 or images.shape[1:] != (28, 28) or images.dtype != torch.uint8:
            raise ValueError(
                f"images must be uint8 (digits, 28, 28), got {images.dtype} {tuple(images.shape)}"
            )
        if labels.shape != (len(images),):
            raise ValueError(f"labels must be ({len(images)},), got {tuple(labels.shape)}")
        if split not in SPLITS:
            raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
        if len(variants) == 0 or min(variants) < 0 or len(set(variants)) < len(variants):
            raise ValueError(f"variants must be different and not negative, got {variants}")
        if seed < 0:
            raise ValueError(f"seed must not be negative, got {seed}")
        blank = (images.flatten(1).amax(1) == 0).nonzero() if len(images) else images
        if len(blank):
            raise ValueError(f"image {int(blank[0])} is blank, so that it has no place")
        self.images, self.labels, self.split = images, labels, split
        self.variants, self.seed = tuple(variants), seed

    def __repr__(self) -> str:
        """Return counts without images."""
        kind, digits = type(self).__name__, len(self.images)
        return f"{kind}({digits} {self.split} digits, {len(self.variants)} variants of each)"

    def __len__(self) -> int:
        """Return the number of transformed images."""
        return len(self.images) * len(self.variants)

    def pairs(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return indices and variants, (count,), at positions of the data set."""
        if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < len(self):
            raise ValueError(
                f"positions must be 0 to {len(self) - 1}, "
                f"got {int(positions.min())} to {int(positions.max())}"
            )
        indices = positions.div(len(self.variants), rounding_mode="floor")
        return indices, torch.tensor(self.variants)[positions % len(self.variants)]

    def spread(self, number: int) -> Tensor:
        """Return the positions of a representative sample, variant by variant."""
        if not 1 <= number <= len(self):
            raise ValueError(f"number must be 1 to {len(self)}, got {number}")
        digits = len(self.images)
        whole, rest = divmod(number, digits)
        indices = torch.cat(
            [
                torch.arange(digits).repeat(whole),
                torch.arange(rest).mul(digits).div(max(rest, 1), rounding_mode="floor"),
            ]
        )
        order = torch.arange(whole).repeat_interleave(digits)
        variants = torch.cat([order, torch.full((rest,), whole)])
        return indices * len(self.variants) + variants

    def batch(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return images, (count, 40, 40) uint8, and labels, (count,), at positions."""
        indices, variants = self.pairs(positions)
        return self.render(indices, variants), self.labels[indices]

    def chunks(self, size: int = 1000) -> Iterator[tuple[Tensor, Tensor]]:
        """Iterate over the data set in order, ``size`` images and labels at a time."""
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        for start in range(0, len(self), size):
            yield self.batch(torch.arange(start, min(start + size, len(self))))

    def render(self, indices: Tensor, variants: Tensor) -> Tensor:
        """Render versions of originals, (count, 40, 40) uint8, also outside the data set."""
        return warp_digits(self.images[indices], self._matrices(indices, variants))

    def matrices(self, indices: Tensor, variants: Tensor) -> Tensor:
        """Return homogeneous maps of versions: pixels from the canvas center, x right, y down."""
        return torch.from_numpy(self._matrices(indices, variants))

    def _matrices(self, indices: Tensor, variants: Tensor) -> NDArray[np.float64]:
        pairs = zip(indices.tolist(), variants.tolist(), strict=True)
        draws = uniform_draws(self.seed, f"{self._stream} {self.split}", pairs, self._draws)
        return self._maps(draws, indices)

    @abstractmethod
    def _maps(self, draws: NDArray[np.float64], indices: Tensor) -> NDArray[np.float64]:
        """Convert uniform numbers, (count, draws), to homogeneous matrices, (count, 3, 3)."""


def uniform_draws(
    seed: int,
    name: str,  # name of the random stream
    pairs: Iterable[tuple[int, int]],
    number: int,
) -> NDArray[np.float64]:
    """Draw uniform numbers per (index, variant) independent of other draws, (pairs, number)."""
    # A checksum, because Python's hash of a string differs from process to process.
    stream = zlib.crc32(name.encode())
    # Words of the seed sequence are the same in every version of NumPy; the methods of a generator
    # are not.
    words = [
        np.random.SeedSequence([seed, stream, index, variant]).generate_state(number, np.uint64)
        for index, variant in pairs
    ]
    stacked = np.array(words, dtype=np.uint64).reshape(-1, number)
    # The upper 52 bits and a half: what a float64 holds exactly, never 0 and never 1.
    return ((stacked >> np.uint64(12)) + 0.5) * 2.0**-52
