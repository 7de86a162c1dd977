"""Digits centred on the canvas of affNIST."""

from __future__ import annotations

from typing import Final

from torch import Tensor
from torch.nn import functional as F

CANVAS: Final = 40


def centred(images: Tensor) -> Tensor:
    """Pad digits by 6 background pixels: affNIST's "just centred" version.

    Parameters
    ----------
    images : Tensor, (..., 28, 28)
        Digits, background 0.

    Returns
    -------
    Tensor, (..., 40, 40), dtype of the images
        The same digits.

    Raises
    ------
    ValueError
        If the images are not 28 x 28.

    Examples
    --------
    >>> import torch
    >>> canvas = centred(torch.ones(2, 28, 28, dtype=torch.uint8))
    >>> canvas.shape, int(canvas.sum())
    (torch.Size([2, 40, 40]), 1568)
    """
    if images.shape[-2:] != (28, 28):
        raise ValueError(f"images must be (..., 28, 28), got {tuple(images.shape)}")
    return F.pad(images, (6, 6, 6, 6))
