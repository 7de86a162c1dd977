"""Random matrices and coordinates: uniform orthogonal matrices, rotations, points of a ball."""

from __future__ import annotations

import torch
from torch import Tensor


def random_orthogonal(
    k: int,  # number of matrices
    n: int,
    *,
    generator: torch.Generator | None,
) -> Tensor:  # (k, n, n), float64
    """Sample orthogonal matrices from the uniform (Haar) distribution."""
    # Signs of the QR factors must be fixed for uniformity: Mezzadri, "How to generate random
    # matrices from the classical compact groups", 2007.
    gaussian = torch.randn(k, n, n, dtype=torch.float64, generator=generator)
    q, r = torch.linalg.qr(gaussian)
    return q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]


def random_rotations(
    k: int,  # number of matrices
    n: int,
    *,
    generator: torch.Generator | None,
) -> Tensor:  # (k, n, n), float64
    """Sample rotations from the uniform (Haar) distribution."""
    g = random_orthogonal(k, n, generator=generator)
    # turning one column over maps the improper half of O(n) to SO(n), measure and all
    sign = torch.linalg.det(g).sign()[:, None]
    return torch.cat([g[..., :1] * sign[..., None], g[..., 1:]], dim=-1)


def random_ball(
    k: int,  # number of points
    dimension: int,  # number of coordinates, at least 0
    *,
    radius: float,
    generator: torch.Generator | None,
) -> Tensor:  # (k, dimension), float64
    """Sample points uniformly from a ball."""
    if radius < 0:
        raise ValueError(f"radius must not be negative, got {radius}")
    if dimension == 0:
        return torch.zeros(k, 0, dtype=torch.float64)
    direction = torch.randn(k, dimension, dtype=torch.float64, generator=generator)
    direction = direction / torch.linalg.vector_norm(direction, dim=1, keepdim=True)
    # the share of the ball within a radius r is r^dimension: its inverse takes uniform numbers
    share = torch.rand(k, 1, dtype=torch.float64, generator=generator) ** (1.0 / dimension)
    return radius * share * direction
