"""Normalization of features on a group."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._integers import checked_integer


class SampleBatchNorm(nn.BatchNorm1d):
    """Batch norm of ``(B, C, N, *S)`` with statistics per channel, over samples and pixels alike.

    Arguments are those of :class:`torch.nn.BatchNorm1d`. Use :class:`SampleLayerNorm` in networks
    that draw new samples for each batch: running statistics average those of all draws and fit
    none.

    Examples
    --------
    >>> import torch
    >>> SampleBatchNorm(6)(torch.rand(2, 6, 8, 9, 9)).shape
    torch.Size([2, 6, 8, 9, 9])
    """

    def __init__(self, num_features: int, *args: Any, **options: Any) -> None:
        super().__init__(checked_integer("num_features", num_features), *args, **options)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize features ``(B, C, N, *S)``, keeping the memory layout of this package."""
        # Statistics for each sample would distinguish samples, and break equivariance.
        # Layers leave channels innermost in memory, then samples: rows in that order are a view.
        order = [0, *range(3, x.ndim), 2, 1]
        rows = x.permute(order)
        normalized = super().forward(rows.reshape(-1, x.shape[1])).view(rows.shape)
        return normalized.permute(0, x.ndim - 1, x.ndim - 2, *range(1, x.ndim - 2))


class SampleLayerNorm(nn.Module):
    """Layer norm over channels, samples and pixels jointly, without parameters.

    ``eps`` is added to the variance.

    Examples
    --------
    >>> import torch
    >>> x = SampleLayerNorm()(torch.rand(2, 6, 8, 9, 9))
    >>> bool(x.mean((1, 2, 3, 4)).abs().max() < 1e-5)
    True
    """

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each image's features ``(B, C, N, *S)`` to mean 0 and variance 1."""
        return F.layer_norm(x, x.shape[1:], eps=self.eps)


def sample_norm(name: Literal["batch", "layer"], channels: int) -> nn.Module:
    """Return the normalization "batch" or "layer" for features ``(B, C, N, *S)``."""
    return SampleBatchNorm(channels) if name == "batch" else SampleLayerNorm()
