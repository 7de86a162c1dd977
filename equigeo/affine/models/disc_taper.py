"""Features on a disc instead of a square.

On its own because it is signal processing with a law of its own, used wherever features of the
plane are about to be convolved.
"""

from __future__ import annotations

import torch
from torch import Tensor


def disc_taper(x: Tensor, rim: float) -> Tensor:
    r"""Taper features of the plane towards the inscribed circle.

    Whatever lies between circle and edge is zero afterwards, as what lies beyond the edge is for
    the next convolution. A square that ends in nonzero features is seen by every output near it,
    and does not turn with the image.

    Parameters
    ----------
    x : Tensor, (..., H, W), floating
        Features.
    rim : float
        Share of the radius over which they fall, as :math:`3 t^2 - 2 t^3`; 0 returns ``x``.

    Returns
    -------
    Tensor, (..., H, W), dtype of ``x``
        Zero outside of the circle, unchanged inside of the rim.

    Equivariance
    ------------
    To rotations about the middle.

    Examples
    --------
    >>> import torch
    >>> disc_taper(torch.ones(1, 4, 4), rim=0.5)[0, 1]
    tensor([0.3794, 1.0000, 1.0000, 0.3794])
    """
    if rim == 0:
        return x
    down, right = (_pixel_middles(size, x) for size in x.shape[-2:])
    radius = (down[:, None].square() + right.square()).sqrt()
    t = ((1 - radius) / rim).clamp(0, 1)
    return x * (t.square() * (3 - 2 * t))  # cubic with zero slope at both ends


def _pixel_middles(size: int, like: Tensor) -> Tensor:
    """Middles of pixels, the edges being at -1 and 1."""
    steps = torch.arange(size, dtype=like.dtype, device=like.device)
    return (2 * steps + 1) / size - 1
