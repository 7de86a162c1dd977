"""Random matrices and coordinates: uniform orthogonal matrices, rotations, points of a ball."""

from __future__ import annotations

import torch
from torch import Tensor


def random_orthogonal(k: int, n: int, *, generator: torch.Generator | None) -> Tensor:
    """Orthogonal matrices drawn from the uniform (Haar) distribution.

    Parameters
    ----------
    k, n : int
        Number of matrices and dimension of space.
    generator : torch.Generator or None
        Source of randomness; None is torch's global one.

    Returns
    -------
    Tensor, (k, n, n), float64
        Independent, orthogonal to rounding.

    References
    ----------
    Mezzadri, "How to generate random matrices from the classical compact groups", 2007: the
    signs of the QR factors must be fixed for the result to be uniform.

    Examples
    --------
    >>> g = random_orthogonal(5, 3, generator=torch.Generator().manual_seed(0))
    >>> torch.allclose(g @ g.mT, torch.eye(3, dtype=torch.float64))
    True
    """
    gaussian = torch.randn(k, n, n, dtype=torch.float64, generator=generator)
    q, r = torch.linalg.qr(gaussian)
    return q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]


def random_rotations(k: int, n: int, *, generator: torch.Generator | None) -> Tensor:
    """Rotations drawn from the uniform (Haar) distribution.

    Parameters
    ----------
    k, n : int
        Number of matrices and dimension of space.
    generator : torch.Generator or None
        Source of randomness; None is torch's global one.

    Returns
    -------
    Tensor, (k, n, n), float64
        Independent, orthogonal to rounding.
    """
    g = random_orthogonal(k, n, generator=generator)
    # turning one column over maps the improper half of O(n) to SO(n), measure and all
    sign = torch.linalg.det(g).sign()[:, None]
    return torch.cat([g[..., :1] * sign[..., None], g[..., 1:]], dim=-1)


def random_ball(
    k: int, dimension: int, *, radius: float, generator: torch.Generator | None
) -> Tensor:
    """Points drawn uniformly from a ball.

    Parameters
    ----------
    k, dimension : int
        Number of points and of coordinates; no coordinates are allowed.
    radius : float
        Radius of the ball, not negative.
    generator : torch.Generator or None
        Source of randomness; None is torch's global one.

    Returns
    -------
    Tensor, (k, dimension), float64
        The points.

    Raises
    ------
    ValueError
        If ``radius`` is negative.
    """
    if radius < 0:
        raise ValueError(f"radius must not be negative, got {radius}")
    if dimension == 0:
        return torch.zeros(k, 0, dtype=torch.float64)
    direction = torch.randn(k, dimension, dtype=torch.float64, generator=generator)
    direction = direction / torch.linalg.vector_norm(direction, dim=1, keepdim=True)
    # the share of the ball within a radius r is r^dimension: its inverse takes uniform numbers
    share = torch.rand(k, 1, dtype=torch.float64, generator=generator) ** (1.0 / dimension)
    return radius * share * direction
