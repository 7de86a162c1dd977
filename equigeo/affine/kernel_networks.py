"""Networks of relative coordinates: Gaussians, sine layers and Gabor layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.checks import takes_integers
from equigeo._core.tensors import computed_in
from equigeo.nn import Tables
from equigeo.nn.state import SavedOptions
from equigeo.nn.tables import buffer_of


@takes_integers
class RBFKernel(SavedOptions):
    r"""Sum of Gaussians :math:`\sum_m W_m \exp(-|x - c_m|^2 / 2\sigma^2)`.

    Parameters
    ----------
    centers : Tensor, (M, in_features), floating
        Centres of the Gaussians.
    width : float
        Standard deviation; about the distance of neighbouring centres.
    out_features : int
        Number of kernel values.
    fan_in : int
        Products that the convolution sums for one output; initial values have variance about
        ``1 / fan_in``.

    Examples
    --------
    >>> import torch
    >>> from equigeo.affine import KernelSpec
    >>> RBFKernel(KernelSpec(5).grid(2), 0.4, out_features=3)(torch.zeros(7, 2)).shape
    torch.Size([7, 3])
    """

    def __init__(self, centers: Tensor, width: float, out_features: int, fan_in: int = 1) -> None:
        super().__init__()
        if centers.ndim != 2 or len(centers) == 0:
            raise ValueError(f"centers must be (M, features), M > 0, got {tuple(centers.shape)}")
        if not width > 0 or out_features < 1 or fan_in < 1:
            raise ValueError(
                "width, out_features and fan_in must be positive, "
                f"got {width}, {out_features}, {fan_in}"
            )
        self.width = width
        self.tables = Tables(centers=centers.double())
        # Weights of variance 1 would give values of variance power, on average over the centres.
        power = self._gaussians(self.centers).square().sum(1).mean()
        weight = torch.randn(out_features, len(centers)) * (power * fan_in).rsqrt()
        self.weight = nn.Parameter(weight)

    def _saved_options(self) -> Mapping[str, Any]:
        return {"width": float(self.width)}

    @property
    def centers(self) -> Tensor:
        """Centres of the Gaussians, (M, in_features), in the dtype of the module."""
        return buffer_of(self.tables, "centers")

    def _gaussians(self, x: Tensor) -> Tensor:
        # Not |x|^2 - 2 x c + |c|^2, which cancels next to a centre, and not cdist, which has no
        # forward mode and no second derivatives.
        square = x.new_zeros(x.shape[0], self.centers.shape[0])
        for k, c in enumerate(self.tables["centers", x.dtype].unbind(1)):
            square = square + ((x[:, k, None] - c) / self.width).square()
        return torch.exp(-0.5 * square)

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate at relative coordinates ``(..., in_features)``."""
        wide = x.to(computed_in(x.dtype)).reshape(-1, self.centers.shape[1])
        values = self._gaussians(wide) @ self.weight.mT.to(wide.dtype)
        return values.to(x.dtype).view(*x.shape[:-1], self.weight.shape[0])


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
