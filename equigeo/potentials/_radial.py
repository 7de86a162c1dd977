"""Stand-in until the radial functions are in :mod:`equigeo.nn`."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class BesselBasis(nn.Module):
    """Spherical Bessel functions of degree 0."""

    def __init__(self, cutoff: float, num_basis: int = 8) -> None:
        super().__init__()
        self.cutoff, self.num_basis = cutoff, num_basis

    def forward(self, r: Tensor) -> Tensor:
        """Evaluate."""
        n = torch.arange(1, self.num_basis + 1, device=r.device, dtype=r.dtype)
        x = r[..., None] * n / self.cutoff
        return torch.sinc(x) * n * (math.pi / self.cutoff * math.sqrt(2 / self.cutoff))


class PolynomialCutoff(nn.Module):
    """Envelope."""

    def __init__(self, cutoff: float, p: int = 6) -> None:
        super().__init__()
        self.cutoff, self.p = cutoff, p

    def forward(self, r: Tensor) -> Tensor:
        """Evaluate."""
        x, p = (r / self.cutoff).clamp(max=1.0), self.p
        rest = sum(math.comb(k + 2, 2) * x**k for k in range(p))
        return (1 - x) ** 3 * rest
