"""Random transforms of every digit, rendered on demand."""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from equigeo.datasets.digits.readers import SPLITS
from equigeo.datasets.digits.warp import CANVAS, warp_digits

_EDGE = (CANVAS - 1) / 2
# E11 - I/3, E12, E13, E21, E22 - I/3, E23, E31, E32
_BASIS: Final = np.delete(np.eye(9), 8, axis=0).reshape(8, 3, 3) - np.array(
    [np.eye(3) / 3 if k in (0, 4) else np.zeros((3, 3)) for k in range(8)]
)
# Half the scales of the published random walk, in the order of the basis.
_SCALES: Final = np.array([0.15, 0.35, 0.17, 0.35, 0.15, 0.17, 0.15, 0.15]) / 2
_HALF_SIDE = (CANVAS - 1) / 2
_TERMS = 24  # elements have norms of about 0.4; even at 2 the rest is 2**24 / 24! = 3e-17


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


class AffNIST(TransformedDigits):
    r"""Random affine transforms of digits, on a canvas of 40 x 40.

    The linear part of a version is

    .. math:: A = \mathrm{diag}(e_x, e_y) \begin{pmatrix} 1 & s \\ 0 & 1 \end{pmatrix} R(\theta)

    with rotation uniform within 20 degrees, shear within 0.2 and each expansion from 0.8 to 1.2.
    The translation is uniform over all that keep every pixel of the digit on the canvas. The
    published benchmark has 32 versions of every digit. A smaller fixed set of 20,000 test images is
    ``AffNIST(*load_digits(folder, "test"), "test", range(2))``.

    Parameters
    ----------
    images : Tensor, (digits, 28, 28), uint8
        Originals; background is 0, none is blank.
    labels : Tensor, (digits,), int64
    split : {"train", "validation", "test"}
        Selects the random stream.
    variants : sequence of int
        Versions of each original in the data set: distinct, not negative.
    seed : int

    References
    ----------
    Tieleman, "affNIST", 2013. The published files hold other draws of the same transformations.

    Examples
    --------
    >>> import torch
    >>> digit = torch.zeros(1, 28, 28, dtype=torch.uint8)
    >>> digit[0, 6:22, 13:15] = 255
    >>> affnist = AffNIST(digit, torch.tensor([1]), "test")
    >>> images, labels = affnist.batch(torch.tensor([31, 0]))
    >>> len(affnist), images.shape, labels.tolist()
    (32, torch.Size([2, 40, 40]), [1, 1])
    """

    _stream = "affnist"
    _draws = 6

    def _maps(self, draws: NDArray[np.float64], indices: Tensor) -> NDArray[np.float64]:
        unit = 2 * draws[:, :4] - 1
        angle = math.radians(20) * unit[:, 0]
        # one at a time: a vectorized sine may round differently at the end of a batch
        c = np.array([math.cos(a) for a in angle])
        s = np.array([math.sin(a) for a in angle])
        shear, wide, high = 0.2 * unit[:, 1], 1 + 0.2 * unit[:, 2], 1 + 0.2 * unit[:, 3]
        maps = np.zeros((len(draws), 3, 3))
        # The product of the docstring, written out: diag(wide, high) (1 shear; 0 1) R(angle).
        maps[:, 0, 0], maps[:, 0, 1] = wide * (c + shear * s), wide * (shear * c - s)
        maps[:, 1, 0], maps[:, 1, 1] = high * s, high * c
        maps[:, 2, 2] = 1
        outline = _outline(self.images[indices].numpy().astype(bool))
        for axis in range(2):
            least, most = _translations(maps[:, axis, :2], outline, indices)
            maps[:, axis, 2] = least + draws[:, 4 + axis] * (most - least)
        return maps


def _outline(ink: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the first and last ink pixel per row as (x, y), (digits, 56, 2); NaN if none."""
    side = ink.shape[-1]
    last = side - 1 - np.flip(ink, axis=2).argmax(axis=2)
    ends = np.stack([ink.argmax(axis=2), last], axis=2)
    x = np.where(ink.any(axis=2, keepdims=True), ends, np.nan) - (side - 1) / 2
    y = np.broadcast_to(np.arange(side)[:, None] - (side - 1) / 2, x.shape)
    return np.stack([x, y], axis=3).reshape(len(ink), 2 * side, 2)


def _translations(
    row: NDArray[np.float64], outline: NDArray[np.float64], indices: Tensor
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the smallest and largest translation along an axis that lose no ink."""
    places = row[:, :1] * outline[:, :, 0] + row[:, 1:] * outline[:, :, 1]
    # Interpolation spreads a pixel over the open square of side 2 around it. A fractional
    # translation can extend the box by one line beyond the nonzero pixels.
    spread = np.abs(row[:, 0]) + np.abs(row[:, 1])
    # lines of the canvas are at half-integers from its center
    first = np.floor(np.fmin.reduce(places, axis=1) - spread + _EDGE) + 1
    last = np.ceil(np.fmax.reduce(places, axis=1) + spread + _EDGE) - 1
    span = last - first + 1
    if np.any(span > CANVAS):
        worst = int(span.argmax())
        raise ValueError(
            f"image {int(indices[worst])} is too large: transformed, it spans "
            f"{span[worst]:.0f} pixels of the canvas's {CANVAS}"
        )
    return -first, CANVAS - 1 - last


class HomNIST(TransformedDigits):
    r"""Random homographies of digits, on a canvas of 40 x 40.

    A version is :math:`\exp(\sum_i v_i B_i)` with a basis B of sl(3), acting on the canvas as the
    square [-1, 1] x [-1, 1]. Each :math:`v_i` is normal with half the scale 0.15, 0.35, 0.17, 0.35,
    0.15, 0.17, 0.15 or 0.15, followed by one step of the same distribution, accepted so that the
    chain has the Haar measure as its stationary distribution. A digit may leave the canvas. The
    published set has 32 versions of every test digit.

    Parameters
    ----------
    images, labels, split, variants, seed
        See `AffNIST`.

    References
    ----------
    MacDonald et al., "Enabling equivariance for arbitrary Lie groups", 2022. The published file
    holds other draws, and gray values that are not rounded.

    Examples
    --------
    >>> import torch
    >>> digit = torch.zeros(1, 28, 28, dtype=torch.uint8)
    >>> digit[0, 6:22, 13:15] = 255
    >>> homnist = HomNIST(digit, torch.tensor([1]), "test", range(2))
    >>> homnist.batch(torch.arange(2))[0].shape
    torch.Size([2, 40, 40])
    """

    _stream = "homnist"
    _draws = 17

    def _maps(self, draws: NDArray[np.float64], indices: Tensor) -> NDArray[np.float64]:
        start = _SCALES * ndtri(draws[:, :8])
        end = start + _SCALES * ndtri(draws[:, 8:16])
        ratio = _haar_density(_algebra(end)) / _haar_density(_algebra(start))
        chosen = np.where((draws[:, 16] < ratio)[:, None], end, start)
        square = np.array([_HALF_SIDE, _HALF_SIDE, 1.0])
        return _exponential(_algebra(chosen)) * square[:, None] / square


def _algebra(v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Combine the basis of sl(3) with coefficients, (count, 8) to (count, 3, 3)."""
    total = np.zeros((len(v), 3, 3))
    for k in range(8):
        total += v[:, k, None, None] * _BASIS[k]
    return total


def _haar_density(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the density of the Haar measure in exponential coordinates."""
    # The Jacobian of exp is the determinant of (1 - exp(-ad)) / ad: ad has the differences d of
    # eigenvalues for eigenvalues, and d and -d together give (sinh(d / 2) / (d / 2)) ** 2.
    eigenvalues = np.linalg.eigvals(x).astype(complex)
    density = np.ones(len(x), dtype=complex)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        half = (eigenvalues[:, i] - eigenvalues[:, j]) / 2
        safe = np.where(half == 0, 1, half)
        density *= np.where(half == 0, 1, np.sinh(safe) / safe) ** 2
    return density.real


def _exponential(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum the exponential series, exact to rounding for the short elements drawn here."""
    total = np.broadcast_to(np.eye(3), x.shape).copy()
    for k in range(_TERMS, 0, -1):
        # Written out because the rounding of a matrix product may depend on the batch.
        product = sum(x[:, :, i, None] * total[:, None, i, :] for i in range(3))
        total = np.eye(3) + product / k
    return total
