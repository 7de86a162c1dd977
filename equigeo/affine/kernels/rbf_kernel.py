"""Kernel that is linear in its parameters: Gaussians around fixed centres."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.nn import Tables
from equigeo.nn.state import SavedOptions
from equigeo.nn.tables import buffer_of
from equigeo.ops.runtime.storage import computed_in


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
