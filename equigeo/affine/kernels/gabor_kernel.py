"""Gabor network: waves in Gaussian envelopes."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.affine.kernels.siren_kernel import linear_of
from equigeo.ops.runtime.storage import computed_in


@takes_integers
class GaborKernel(nn.Module):
    r"""Layers :math:`\sin(\omega(Wx + b))\,\exp(-(\sigma(Vx + c))^2)`, then a linear map.

    More local than :class:`SirenKernel`. ``sigma`` is the inverse width of the envelopes; other
    arguments: see :class:`SirenKernel`.

    Reference: Saragadam et al., "WIRE: Wavelet Implicit Neural Representations", CVPR 2023.

    Examples
    --------
    >>> import torch
    >>> GaborKernel(2, 3)(torch.zeros(7, 2)).shape
    torch.Size([7, 3])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: int = 60,
        layers: int = 2,
        omega: float = 10.0,
        sigma: float = 1.0,
        fan_in: int = 1,
    ) -> None:
        super().__init__()
        if min(in_features, out_features, hidden, layers, fan_in) < 1:
            raise ValueError("all sizes of a GaborKernel must be positive")
        self.omega, self.sigma = omega, sigma
        pairs = list(pairwise([in_features, *[hidden] * layers]))
        waves = [nn.Linear(a, b) for a, b in pairs]
        # As in SirenKernel. Envelopes are at most 1.
        for wave in waves[1:]:
            bound = math.sqrt(6 / hidden) / omega
            nn.init.uniform_(wave.weight, -bound, bound)
        self.wave = nn.ModuleList(waves)
        self.envelope = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        self.last = nn.Linear(hidden, out_features)
        bound = math.sqrt(6 / hidden / fan_in)
        nn.init.uniform_(self.last.weight, -bound, bound)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate at relative coordinates ``(..., in_features)``."""
        dtype, x = x.dtype, x.to(computed_in(x.dtype))
        for wave, envelope in zip(self.wave, self.envelope, strict=True):
            widths = self.sigma * linear_of(envelope, x)
            x = torch.sin(self.omega * linear_of(wave, x)) * torch.exp(-widths.square())
        return linear_of(self.last, x).to(dtype)
