"""Random rotations and reflections."""

from __future__ import annotations

import torch
from torch import Tensor


def random_orthogonal(generator: torch.Generator, determinant: float, dim: int = 3) -> Tensor:
    """Draw uniformly from the orthogonal matrices of a determinant.

    Parameters
    ----------
    generator : torch.Generator
        Source of randomness.
    determinant : float
        1 or -1.
    dim : int
        Of the space.

    Returns
    -------
    Tensor, (dim, dim), float64
        The matrix.

    Examples
    --------
    >>> q = random_orthogonal(torch.Generator(), -1.0)
    >>> round(float(torch.linalg.det(q)), 12)
    -1.0
    """
    gaussian = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    q = q * r.diagonal().sign()  # makes the factorisation unique, hence the draw uniform
    signs = (torch.linalg.det(q) * determinant).sign().repeat(dim)
    signs[: 1 - dim % 2] = 1.0  # an odd number of axes is turned round, or none
    return q * signs
