"""Sine network, the kernel of the published layers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._integers import takes_integers
from equigeo.ops.runtime.storage import computed_in


@takes_integers
class SirenKernel(nn.Module):
    r"""Layers :math:`\sin(\omega(Wx + b))`, then a linear map.

    Reference: Sitzmann et al., "Implicit Neural Representations with Periodic Activation
    Functions", 2020.

    Parameters
    ----------
    in_features, out_features : int
        Number of coordinates and of kernel values.
    hidden, layers : int
        Width and number of the hidden layers.
    omega : float
        Frequency: how many oscillations the kernel can have.
    fan_in : int
        Products that the convolution sums for one output; initial values have variance about
        ``1 / fan_in``.

    Examples
    --------
    >>> import torch
    >>> SirenKernel(5, 1600)(torch.zeros(7, 5)).shape
    torch.Size([7, 1600])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: int = 60,
        layers: int = 3,
        omega: float = 10.0,  # as in the published layers
        fan_in: int = 1,
    ) -> None:
        super().__init__()
        sizes = {"in_features": in_features, "out_features": out_features, "hidden": hidden}
        for name, value in {**sizes, "layers": layers, "fan_in": fan_in}.items():
            if value < 1:
                raise ValueError(f"{name} must be positive, got {value}")
        self.omega = omega
        widths = pairwise([in_features, *[hidden] * layers])
        sines = [nn.Linear(a, b) for a, b in widths]
        self.last = nn.Linear(hidden, out_features)
        # Sitzmann et al., section 3.2. Uniform in +-b has variance b^2 / 3, and a sine of arguments
        # spread over many turns has 1 / 2: with b = sqrt(6 / hidden) a sum of hidden products has
        # variance 1, whatever the depth. The first layer reads coordinates.
        nn.init.uniform_(sines[0].weight, -1 / in_features, 1 / in_features)
        for layer in sines[1:]:
            _initialize(layer, math.sqrt(6 / hidden) / omega)
        # Values of variance 1 / fan_in keep the variance of the features that are convolved.
        _initialize(self.last, math.sqrt(6 / hidden) / math.sqrt(fan_in))
        self.hidden = nn.ModuleList(sines)

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate at relative coordinates ``(..., in_features)``."""
        dtype, x = x.dtype, x.to(computed_in(x.dtype))
        for layer in self.hidden:
            x = torch.sin(self.omega * linear_of(layer, x))
        return linear_of(self.last, x).to(dtype)


def linear_of(layer: nn.Module, x: Tensor) -> Tensor:
    """Apply a linear layer in the dtype of ``x``: phases have no digits left in half precision."""
    weight, bias = cast("Tensor", layer.weight), cast("Tensor", layer.bias)
    if weight.dtype == x.dtype:
        return cast("Tensor", layer(x))
    return F.linear(x, weight.to(x.dtype), bias.to(x.dtype))


def _initialize(layer: nn.Linear, bound: float) -> None:
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.zeros_(layer.bias)
