"""Rendering of digits under projective maps."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

CANVAS: Final = 40
_CENTRE = (CANVAS - 1) / 2
_CENTRE_IN = 13.5  # (28 - 1) / 2
_AT_ONCE = 64  # so that the intermediate results stay in the processor's cache
_DARK: Final = 127  # the brightest gray that counts as dark


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
    p = torch.arange(CANVAS, dtype=torch.float32) - _CENTRE
    x, y = p[None, None, :], p[None, :, None]
    u, v, w = (
        r[:, 0, None, None] * x + r[:, 1, None, None] * y + r[:, 2, None, None]
        for r in inverse.unbind(1)
    )
    return _interpolate(images, u / w + _CENTRE_IN, v / w + _CENTRE_IN)


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
    down, right = max(width - height, 0), max(height - width, 0)
    background = int(torch.cat([image[0], image[-1], image[:, 0], image[:, -1]]).median())
    sides = (right // 2, right - right // 2, down // 2, down - down // 2)
    square = F.pad(image, sides, value=background)[None, None].float()
    size = (CANVAS, CANVAS)
    small = F.interpolate(square, size, mode="bilinear", align_corners=False, antialias=True)
    return small[0, 0].round().clamp(0, 255).to(torch.uint8)
