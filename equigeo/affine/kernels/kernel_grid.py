"""Points at which a convolution kernel is evaluated."""

from __future__ import annotations

import torch
from torch import Tensor


def kernel_grid(
    size: int,  # cells along each axis
    n: int,  # dimension of space
    extent: float = 1.0,  # half the edge length e
) -> Tensor:  # (size ** n, n), float64; coordinate a belongs to spatial axis a of features
    """Return the cell centres of a cube :math:`[-e, e]^n`, the first coordinate slowest."""
    if size < 1 or not extent > 0:
        raise ValueError(f"size and extent must be positive, got {size} and {extent}")
    # Cell centres: a sum over them times the cell volume is the midpoint rule.
    axis = (2 * torch.arange(size, dtype=torch.float64, device="cpu") + 1 - size) / size * extent
    return torch.cartesian_prod(*[axis] * n).view(-1, n)
