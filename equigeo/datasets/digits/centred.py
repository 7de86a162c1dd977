"""Digits centred on the canvas of affNIST."""

from __future__ import annotations

from typing import Final

from torch import Tensor
from torch.nn import functional as F

CANVAS: Final = 40


def centred(images: Tensor) -> Tensor:
    """Pad digits (..., 28, 28) by 6 background pixels, as in affNIST's "just centred" version."""
    if images.shape[-2:] != (28, 28):
        raise ValueError(f"images must be (..., 28, 28), got {tuple(images.shape)}")
    return F.pad(images, (6, 6, 6, 6))
