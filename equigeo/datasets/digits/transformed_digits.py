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
    """Data set of (index, variant) pairs, ordered by index, then by variant.

    An image depends on the kind of transformation, the split, the seed, its index and its variant
    alone: batches may be asked for in any order and any size, and give the same bits.

    Parameters
    ----------
    images : Tensor, (digits, 28, 28), uint8
        The originals, background 0, none of them blank.
    labels : Tensor, (digits,), int64
        The class of every original.
    split : {"train", "validation", "test"}
        What the originals are; parts of the random streams.
    variants : sequence of int
        Which versions of every original belong to the data set; different, not negative.
    seed : int
        Seed of all versions, not negative.

    Raises
    ------
    ValueError
        If the arguments do not fit together, or an image is blank.

    Examples
    --------
    >>> class Shifted(TransformedDigits):  # to the right, by up to three pixels
    ...     _stream, _draws = "shifted", 1
    ...     def _maps(self, draws, indices):
    ...         maps = np.tile(np.eye(3), (len(draws), 1, 1))
    ...         maps[:, 0, 2] = 3 * draws[:, 0]
    ...         return maps
    >>> digit = torch.zeros(1, 28, 28, dtype=torch.uint8)
    >>> digit[0, 6:22, 13:15] = 255
    >>> shifted = Shifted(digit, torch.tensor([1]), "test", variants=range(4))
    >>> shifted
    Shifted(1 test digits, 4 variants of each)
    >>> shifted.batch(torch.tensor([3, 0]))[0].shape
    torch.Size([2, 40, 40])
    """

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
        """Return index and variant at some positions of the data set.

        Parameters
        ----------
        positions : Tensor, (count,), int64
            From 0 to ``len(self) - 1``.

        Returns
        -------
        indices, variants : Tensor, (count,), int64
            For :meth:`render` and :meth:`matrices`.

        Raises
        ------
        ValueError
            If there is no such position.
        """
        if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < len(self):
            raise ValueError(
                f"positions must be 0 to {len(self) - 1}, "
                f"got {int(positions.min())} to {int(positions.max())}"
            )
        indices = positions.div(len(self.variants), rounding_mode="floor")
        return indices, torch.tensor(self.variants)[positions % len(self.variants)]

    def spread(self, number: int) -> Tensor:
        """Return the positions of a representative sample of images.

        The first variant of every original comes first, then the second; of the last variant that
        is needed, originals are taken at even distances. ``spread(20_000)`` of the 320,000 test
        images are variants 0 and 1 of all 10,000 digits.

        Parameters
        ----------
        number : int
            How many, from 1 to ``len(self)``.

        Returns
        -------
        Tensor, (number,), int64
            Different positions.

        Raises
        ------
        ValueError
            If there are not so many.
        """
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
        """Return images, (count, 40, 40), uint8, and labels, (count,), at some positions."""
        indices, variants = self.pairs(positions)
        return self.render(indices, variants), self.labels[indices]

    def chunks(self, size: int = 1000) -> Iterator[tuple[Tensor, Tensor]]:
        """Iterate over the data set in order, ``size`` images and labels at a time."""
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        for start in range(0, len(self), size):
            yield self.batch(torch.arange(start, min(start + size, len(self))))

    def render(self, indices: Tensor, variants: Tensor) -> Tensor:
        """Render some versions, inside the data set or not.

        Parameters
        ----------
        indices, variants : Tensor, (count,), int64
            Which version of which original.

        Returns
        -------
        Tensor, (count, 40, 40), uint8
            Grey values, 0 for background.
        """
        return warp_digits(self.images[indices], self._matrices(indices, variants))

    def matrices(self, indices: Tensor, variants: Tensor) -> Tensor:
        """Return the map from the centred digit to each of some versions.

        Parameters
        ----------
        indices, variants : Tensor, (count,), int64
            Which version of which original.

        Returns
        -------
        Tensor, (count, 3, 3), float64
            Homogeneous, acting on (x, y, 1) in pixels from the centre of the canvas, x to the
            right, y down.
        """
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
