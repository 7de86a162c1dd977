"""Images of any size and polarity on the canvas of affNIST."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

from equigeo.datasets.digits.centred import CANVAS, centred

_DARK: Final = 127  # the brightest grey that counts as dark


def digit_canvas(image: Tensor) -> tuple[Tensor, str]:
    """Place a digit on a canvas of 40 x 40, bright on dark as in MNIST.

    Images of 28 x 28 get a border, images of 40 x 40 are unchanged, all others are padded to a
    square and averaged to the size of the canvas. Images with a mostly bright border are inverted.

    Parameters
    ----------
    image : Tensor, (height, width), uint8
        Grey values, at least two different ones.

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
