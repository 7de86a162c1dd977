"""Random transforms of every digit, rendered on demand, and digits on a canvas."""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from equigeo.datasets.digits.readers import SPLITS

CANVAS: Final = 40
_CENTER = (CANVAS - 1) / 2
_CENTER_IN = 13.5  # (28 - 1) / 2
_AT_ONCE = 64  # so that the intermediate results stay in the processor's cache
_DARK: Final = 127  # the brightest gray that counts as dark
# E11 - I/3, E12, E13, E21, E22 - I/3, E23, E31, E32
_BASIS: Final = np.delete(np.eye(9), 8, axis=0).reshape(8, 3, 3) - np.array(
    [np.eye(3) / 3 if k in (0, 4) else np.zeros((3, 3)) for k in range(8)]
)
# Half the scales of the published random walk, in the order of the basis.
_SCALES: Final = np.array([0.15, 0.35, 0.17, 0.35, 0.15, 0.17, 0.15, 0.15]) / 2
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
        evenly = torch.arange(rest).mul(digits).div(max(rest, 1), rounding_mode="floor")
        indices = torch.cat([torch.arange(digits).repeat(whole), evenly])
        variants = torch.arange(number).div(digits, rounding_mode="floor")
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
        return warp_digits(self.images[indices], self.matrices(indices, variants).numpy())

    def matrices(self, indices: Tensor, variants: Tensor) -> Tensor:
        """Return homogeneous maps of versions: pixels from the canvas center, x right, y down."""
        pairs = zip(indices.tolist(), variants.tolist(), strict=True)
        draws = uniform_draws(self.seed, f"{self._stream} {self.split}", pairs, self._draws)
        return torch.from_numpy(self._maps(draws, indices))

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
    first = np.floor(np.fmin.reduce(places, axis=1) - spread + _CENTER) + 1
    last = np.ceil(np.fmax.reduce(places, axis=1) + spread + _CENTER) - 1
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
    >>> digit = torch.zeros(1, 28, 28, dtype=torch.uint8)
    >>> digit[0, 6:22, 13:15] = 255
    >>> homnist = HomNIST(digit, torch.tensor([1]), "test", range(2))
    >>> homnist.batch(torch.arange(2))[0].shape
    torch.Size([2, 40, 40])
    """

    _stream = "homnist"
    _draws = 17

    def _maps(self, draws: NDArray[np.float64], indices: Tensor) -> NDArray[np.float64]:
        start = _SCALES * scipy.special.ndtri(draws[:, :8])
        end = start + _SCALES * scipy.special.ndtri(draws[:, 8:16])
        ratio = _haar_density(_algebra(end)) / _haar_density(_algebra(start))
        chosen = np.where((draws[:, 16] < ratio)[:, None], end, start)
        square = np.array([_CENTER, _CENTER, 1.0])
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


def centred(images: Tensor) -> Tensor:
    """Pad digits (..., 28, 28) by 6 background pixels, as in affNIST's "just centred" version."""
    if images.shape[-2:] != (28, 28):
        raise ValueError(f"images must be (..., 28, 28), got {tuple(images.shape)}")
    return F.pad(images, (6, 6, 6, 6))


def warp_digits(
    images: Tensor,  # (digits, 28, 28) uint8, background 0
    matrices: NDArray[np.float64],  # (digits, 3, 3), pixels from the center, y down
) -> Tensor:
    """Warp digits by out(p) = in(M^-1 p) with bilinear interpolation, (digits, 40, 40) uint8."""
    # Elementary operations per pixel, so that bits do not depend on the batch.
    result = torch.empty(len(images), CANVAS, CANVAS, dtype=torch.uint8)
    inverse = torch.from_numpy(_inverse(matrices).astype(np.float32))
    for start in range(0, len(images), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        result[part] = _warp(images[part], inverse[part])
    return result


def _inverse(m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Invert by cofactors; unlike LAPACK, the rounding does not depend on the batch."""
    rows = [m[:, 0], m[:, 1], m[:, 2]]
    columns = [np.cross(rows[(k + 1) % 3], rows[(k + 2) % 3]) for k in range(3)]
    a, b = rows[0], columns[0]
    determinant = a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1] + a[:, 2] * b[:, 2]
    return np.stack(columns, axis=2) / determinant[:, None, None]


def _warp(images: Tensor, inverse: Tensor) -> Tensor:
    p = torch.arange(CANVAS, dtype=torch.float32) - _CENTER
    x, y = p[None, None, :], p[None, :, None]
    u, v, w = (
        r[:, 0, None, None] * x + r[:, 1, None, None] * y + r[:, 2, None, None]
        for r in inverse.unbind(1)
    )
    return _interpolate(images, u / w + _CENTER_IN, v / w + _CENTER_IN)


def _interpolate(images: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Interpolate at positions in pixels of the input; pixels outside are 0."""
    count, side = len(images), images.shape[-1]
    # One line of background before the digit and two after it: a position beyond the edge is
    # clamped to background, and the corner to the right of it still exists.
    padded = torch.zeros(count, side + 3, side + 3)
    padded[:, 1:-2, 1:-2] = images
    x, y = x.clamp(-1, side) + 1, y.clamp(-1, side) + 1
    left, top = x.floor(), y.floor()
    x, y = x - left, y - top
    base = torch.arange(count).mul(padded[0].numel())[:, None, None]
    corner = base + (top * (side + 3) + left).long()
    flat = padded.flatten()
    upper = flat[corner] * (1 - x) + flat[corner + 1] * x
    corner += side + 3
    lower = flat[corner] * (1 - x) + flat[corner + 1] * x
    return (upper * (1 - y) + lower * y).round().clamp(0, 255).to(torch.uint8)


def digit_canvas(image: Tensor) -> tuple[Tensor, str]:
    """Place a digit on a canvas of 40 x 40, bright on dark as in MNIST.

    Images of 28 x 28 get a border, images of 40 x 40 are unchanged, all others are padded to a
    square and averaged to the size of the canvas. Images with a mostly bright border are inverted.

    Parameters
    ----------
    image : Tensor, (height, width), uint8
        Gray values, at least two different ones.

    Returns
    -------
    canvas : Tensor, (40, 40), uint8
    note : str
        Changes other than a border; may be empty.

    Examples
    --------
    >>> paper = torch.full((80, 60), 255, dtype=torch.uint8)
    >>> paper[20:60, 28:32] = 0  # a stroke of ink
    >>> canvas, note = digit_canvas(paper)
    >>> canvas.shape, note
    (torch.Size([40, 40]), 'inverted, for its border is bright; scaled from 60 x 80')
    """
    if image.numel() == 0 or int(image.min()) == int(image.max()):
        raise ValueError("shows nothing: all of its pixels are equal")
    notes = []
    border = torch.cat([image[0], image[-1], image[:, 0], image[:, -1]])
    if int(border.median()) > _DARK:
        image, notes = 255 - image, ["inverted, for its border is bright"]
    height, width = image.shape
    if (height, width) == (28, 28):
        image = centred(image)
    elif (height, width) != (CANVAS, CANVAS):
        notes.append(f"scaled from {width} x {height}")
        image = _scaled(image)
    return image, "; ".join(notes)


def _scaled(image: Tensor) -> Tensor:
    height, width = image.shape
    if max(height, width) > CANVAS * min(height, width):
        raise ValueError(f"is {width} x {height}, too narrow for a digit")
    down, right = max(width - height, 0), max(height - width, 0)
    background = int(torch.cat([image[0], image[-1], image[:, 0], image[:, -1]]).median())
    sides = (right // 2, right - right // 2, down // 2, down - down // 2)
    square = F.pad(image, sides, value=background)[None, None].float()
    size = (CANVAS, CANVAS)
    small = F.interpolate(square, size, mode="bilinear", align_corners=False, antialias=True)
    return small[0, 0].round().clamp(0, 255).to(torch.uint8)
