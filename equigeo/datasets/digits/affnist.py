"""The affNIST benchmark, generated from MNIST."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from equigeo.datasets.digits.centred import CANVAS
from equigeo.datasets.digits.transformed_digits import TransformedDigits

_EDGE = (CANVAS - 1) / 2


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
    # lines of the canvas are at half-integers from its centre
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
