"""Point transformer: attention between groups of points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from equigeo.points.clouds import gather_rows
from equigeo.points.layers import (
    PointHead,
    PointLayer,
    PointNetwork,
    group_features,
    group_points,
    masked_max,
    takes_positive,
)


@takes_positive
class PointTransformer(PointNetwork):
    """Classify clouds by attention between local groups of points (Point Cloud Transformer).

    The published size is ``groups=(512, 256), width=128, features=1024, hidden=(512, 256)``; the
    default is a quarter of it.

    Parameters
    ----------
    num_classes : int
    groups : sequence of int
        Points left after each grouping; all if there are fewer.
    neighbors : int
        Points per group.
    width : int
        Channels of the first group; each further group doubles them.
    attentions : int
        Number of attention layers.
    features : int
        Channels of the layer over all attention layers.
    hidden, dropout
        See `PointNet`.
    **options
        ``dim``, see `PointNet`.

    Equivariance
    ------------
    Invariant to permutations of points, except for ties among distances.

    References
    ----------
    Guo et al., "PCT: Point cloud transformer", 2021.

    Examples
    --------
    >>> PointTransformer(10).eval()(torch.rand(2, 100, 3)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        num_classes: int,
        groups: Sequence[int] = (128, 64),
        neighbors: int = 16,
        width: int = 64,
        attentions: int = 4,
        features: int = 512,
        hidden: Sequence[int] = (256, 128),
        dropout: float = 0.5,
        **options: int,
    ) -> None:
        super().__init__(**options)
        widths = [max(1, width // 2), *(width << level for level in range(len(groups)))]
        last = widths[-1]
        self.counts, self.neighbors = tuple(groups), neighbors
        self.first = PointLayer(self.dim, widths[0])
        self.groups = nn.ModuleList(_Group(a, b) for a, b in pairwise(widths))
        self.attentions = nn.ModuleList(_OffsetAttention(last) for _ in range(attentions))
        self.features = PointLayer((attentions + 1) * last, features, slope=0.2)
        self.head = PointHead(features, hidden, num_classes, dropout)

    def classify(self, x: Tensor, mask: Tensor | None) -> Tensor:
        positions, x = x, self.first(x, mask)
        for count, group in zip(self.counts, self.groups, strict=True):
            few, near, mask = group_points(positions, count, self.neighbors, mask)
            positions, x = (
                gather_rows(positions, few),
                group(gather_rows(x, few), gather_rows(x, near), mask),
            )
        seen = [x]
        for attention in self.attentions:
            seen.append(attention(seen[-1], mask))
        x = self.features(torch.cat(seen, -1), mask)
        return self.head(masked_max(x, mask))


class _Group(nn.Module):
    """Features of points (B, Q, C) and of their neighbors (B, Q, k, C), to (B, Q, width)."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([PointLayer(2 * channels, width), PointLayer(width, width)])

    def forward(self, x: Tensor, near: Tensor, mask: Tensor | None) -> Tensor:
        x = x[:, :, None].expand_as(near)
        return group_features(self.layers, torch.cat([near - x, x], -1), mask)


class _OffsetAttention(nn.Module):
    """Attention with its change passed through a layer and added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.keys = nn.Linear(channels, max(1, channels // 4), bias=False)
        self.values = nn.Linear(channels, channels)
        self.layer = PointLayer(channels, channels)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        keys = self.keys(x)  # queries have the same weights
        scores = keys @ keys.mT
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, :], -torch.inf)
        attention = scores.softmax(-1)
        if mask is not None:
            attention = attention * mask[:, :, None]
        # As published: softmax over rows, then columns add up to one. No row looks at padding,
        # whose sum is zero, as 1e-9 is in float16.
        least = max(1e-9, torch.finfo(attention.dtype).tiny)
        attention = attention / (least + attention.sum(1, keepdim=True))
        # The offset of the point from what it attends to, as of a Laplacian.
        return x + self.layer(x - attention @ self.values(x), mask)
