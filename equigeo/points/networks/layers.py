"""Layers of point networks: normalized linear map, classification head and masked maximum."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PointLayer(nn.Module):
    """Linear map, batch norm over all rows, and (leaky) ReLU."""

    def __init__(
        self,
        channels: int,
        width: int,
        slope: float = 0.0,  # of the ReLU for negative values
    ) -> None:
        super().__init__()
        self.slope = slope
        self.linear = nn.Linear(channels, width, bias=False)
        self.norm = nn.BatchNorm1d(width)

    def forward(
        self,
        x: Tensor,  # (..., channels)
        mask: Tensor | None = None,  # (...)
    ) -> Tensor:
        """Apply the layer, (..., width); masked rows are zero and not in the statistics."""
        return self.normalize(self.linear(x), mask)

    def normalize(
        self,
        y: Tensor,  # (..., width)
        mask: Tensor | None = None,  # (...)
    ) -> Tensor:
        """Apply batch norm and ReLU."""
        return self.rectify(self.standardize(y, mask))

    def standardize(
        self,
        y: Tensor,  # (..., width)
        mask: Tensor | None = None,  # (...)
    ) -> Tensor:
        """Apply batch norm to unmasked rows."""
        if mask is None:
            return self.norm(y.reshape(-1, y.shape[-1])).view(y.shape)
        there = self.norm(y[mask])
        return y.new_zeros(y.shape).masked_scatter(mask[..., None], there.to(y.dtype))

    def rectify(self, y: Tensor) -> Tensor:
        """Apply the ReLU, to the result of ``standardize`` or to a maximum of such rows."""
        return F.leaky_relu(y, self.slope)


class PointHead(nn.Module):
    """Classification head: layers with dropout and a linear map."""

    def __init__(
        self,
        channels: int,
        hidden: Sequence[int],  # channels of the layers
        num_classes: int,
        dropout: float,
        slope: float = 0.0,  # of the ReLU for negative values
    ) -> None:
        super().__init__()
        widths = [channels, *hidden]
        self.hidden = nn.ModuleList(PointLayer(a, b, slope) for a, b in pairwise(widths))
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(widths[-1], num_classes)

    def forward(
        self,
        x: Tensor,  # (B, channels)
    ) -> Tensor:
        """Return logits, (B, num_classes)."""
        for layer in self.hidden:
            x = self.dropout(layer(x))
        return self.last(x)


def masked_max(
    x: Tensor,  # (B, P, C)
    mask: Tensor | None = None,  # (B, P) with at least one point
) -> Tensor:
    """Return the maximum over points per channel, (B, C)."""
    there = x if mask is None else x.masked_fill(~mask[..., None], -torch.inf)
    return there.max(1).values  # not `amax`, whose gradient compares all points
