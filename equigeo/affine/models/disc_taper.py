"""Features of the plane tapered to a disc."""

from __future__ import annotations

import torch
from torch import Tensor


def disc_taper(
    x: Tensor,  # (..., H, W)
    rim: float,  # share of the radius over which features decrease; 0 returns x
) -> Tensor:
    """Taper features of the plane to zero at the inscribed circle."""
    if rim == 0:
        return x
    # A square of nonzero features has edges that do not rotate with the image.
    down, right = (_pixel_middles(size, x) for size in x.shape[-2:])
    radius = (down[:, None].square() + right.square()).sqrt()
    t = ((1 - radius) / rim).clamp(0, 1)
    return x * (t.square() * (3 - 2 * t))  # cubic with zero slope at both ends


def _pixel_middles(size: int, like: Tensor) -> Tensor:
    """Return pixel centres, with image edges at -1 and 1."""
    steps = torch.arange(size, dtype=like.dtype, device=like.device)
    return (2 * steps + 1) / size - 1
