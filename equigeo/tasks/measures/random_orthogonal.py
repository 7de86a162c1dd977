"""Random rotations and reflections."""

from __future__ import annotations

import torch
from torch import Tensor


def random_orthogonal(generator: torch.Generator, determinant: float, dim: int = 3) -> Tensor:
    """Draw an orthogonal matrix of determinant 1 or -1 from the Haar measure, (dim, dim)."""
    # the distribution of a Gaussian matrix is that of its product with any orthogonal one
    gaussian = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    q = q * r.diagonal().sign()  # makes the factorisation unique, hence the draw uniform
    signs = (torch.linalg.det(q) * determinant).sign().repeat(dim)
    signs[: 1 - dim % 2] = 1.0  # an odd number of axes is reversed, or none
    return q * signs
