"""Points at which a convolution kernel is evaluated."""

from __future__ import annotations

import torch
from torch import Tensor


def kernel_grid(size: int, n: int, extent: float = 1.0) -> Tensor:
    """Return the cell centres ``(size ** n, n)`` of a cube :math:`[-e, e]^n`, in float64.

    The first coordinate is the slowest; coordinate ``a`` belongs to spatial axis ``a`` of features.

    Parameters
    ----------
    size : int
        Cells along each axis.
    n : int
        Dimension of space.
    extent : float
        Half the edge length: a cell has length ``2 * extent / size``.

    Examples
    --------
    >>> kernel_grid(5, 2)[:6, 1].tolist()
    [-0.8, -0.4, 0.0, 0.4, 0.8, -0.8]
    """
    if size < 1 or not extent > 0:
        raise ValueError(f"size and extent must be positive, got {size} and {extent}")
    # Middles of cells, not ends: their sum times a cell's volume is the midpoint rule.
    axis = (2 * torch.arange(size, dtype=torch.float64, device="cpu") + 1 - size) / size * extent
    return torch.cartesian_prod(*[axis] * n).view(-1, n)
