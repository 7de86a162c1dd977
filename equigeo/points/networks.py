"""PointNet, PointNet++, DGCNN and point transformer: classifiers of point clouds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from equigeo._core.tensors import computed_in, rules_see_tangents
from equigeo.ops.geometry.axis_rules import safe_root
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
from equigeo.points.neighbors import find_nearest


@takes_positive
class PointNet(PointNetwork):
    """Classify clouds by features of single points.

    PointNet without input transforms and of half the width; the published size is
    ``widths=(64, 64, 64, 128, 1024), hidden=(512, 256)``. Networks of this package take points
    (..., points, dim), or (rows, dim) with ``batch`` or ``ptr`` as in :func:`pad_clouds`; arrays
    are cast to the dtype of the weights. A ``mask`` (..., points) tells which points exist, at
    least one per cloud. Padding affects neither logits nor batch statistics, unless a cloud has
    fewer points than neighbors are read.

    Parameters
    ----------
    num_classes : int
    widths : sequence of int
        Channels of the layers per point.
    hidden : sequence of int
        Channels of the layers after the maximum over points.
    dropout : float
        Dropout probability of the hidden layers.
    dim : int
        Coordinates per point.

    Equivariance
    ------------
    Invariant to permutations of points.

    References
    ----------
    Qi et al., "PointNet: Deep Learning on Point Sets for 3D Classification and Segmentation",
    CVPR 2017.

    Examples
    --------
    >>> import torch
    >>> PointNet(10).eval()(torch.rand(2, 100, 3)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        num_classes: int,
        widths: Sequence[int] = (64, 64, 128, 512),
        hidden: Sequence[int] = (256, 128),
        dropout: float = 0.3,
        dim: int = 3,
    ) -> None:
        super().__init__(dim)
        self.points = nn.ModuleList(PointLayer(a, b) for a, b in pairwise([dim, *widths]))
        self.head = PointHead(widths[-1], hidden, num_classes, dropout)

    def classify(self, x: Tensor, mask: Tensor | None) -> Tensor:
        *first, last = cast("Iterable[PointLayer]", self.points)
        for layer in first:
            x = layer(x, mask)
        return self.head(last.largest(x, mask))


@takes_positive
class PointNetPlusPlus(PointNetwork):
    """Classify clouds by features and positions of neighborhoods.

    Groups consist of nearest neighbors instead of points within a radius, so that no scale is
    needed. ``groups=(512, 128), neighbors=32, widths=((64, 64, 128), (128, 128, 256)),
    features=1024, hidden=(512, 256), dropout=0.4, distances=False`` is approximately the published
    network.

    Parameters
    ----------
    num_classes : int
    groups : sequence of int
        Points left after each grouping; all if there are fewer.
    neighbors : int
        Points per group.
    widths : sequence of sequences of int
        Channels of the layers of each grouping.
    features : int
        Channels of the layer over the remaining points and their coordinates.
    hidden, dropout
        See `PointNet`.
    distances : bool
        Append rotation-invariant distances to the group center and to the origin.
    **options
        ``dim``, see `PointNet`.

    Equivariance
    ------------
    Invariant to permutations of points, except for ties among distances.

    References
    ----------
    Qi et al., "PointNet++: Deep hierarchical feature learning on point sets in a metric space",
    NeurIPS 2017; Zhang et al., "Rotation invariant convolutions for 3D point clouds deep learning",
    3DV 2019.

    Examples
    --------
    >>> PointNetPlusPlus(10).eval()(torch.rand(2, 100, 3)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        num_classes: int,
        groups: Sequence[int] = (64, 16),
        neighbors: int = 16,
        widths: Sequence[Sequence[int]] = ((32, 64), (128, 128)),
        features: int = 512,
        hidden: Sequence[int] = (256, 128),
        dropout: float = 0.3,
        *,
        distances: bool = True,
        **options: int,
    ) -> None:
        super().__init__(**options)
        if len(groups) != len(widths):
            raise ValueError(f"groups and widths must be equally long, got {groups} and {widths}")
        self.groups = nn.ModuleList()
        channels = 0
        for count, width in zip(groups, widths, strict=True):
            self.groups.append(
                SetAbstraction(channels, width, count, neighbors, self.dim, distances=distances)
            )
            channels = width[-1]
        self.distances = distances
        self.features = PointLayer(self.dim + int(distances) + channels, features)
        self.head = PointHead(features, hidden, num_classes, dropout)

    def classify(self, x: Tensor, mask: Tensor | None) -> Tensor:
        positions, x = x, x[..., :0]
        for group in self.groups:
            positions, x, mask = group(positions, x, mask)
        seen = [positions, x]
        if self.distances:
            seen.append(_lengths(positions))
        return self.head(self.features.largest(torch.cat(seen, -1), mask))


class SetAbstraction(nn.Module):
    """Small PointNets on groups of neighbors relative to the group center."""

    def __init__(
        self,
        channels: int,  # feature channels besides coordinates
        widths: Sequence[int],  # channels of the layers before the maximum
        count: int,  # number of groups
        neighbors: int,  # points per group
        dim: int = 3,
        *,
        distances: bool = False,  # append rotation-invariant triangle sides
    ) -> None:
        super().__init__()
        # Qi et al., "PointNet++", NeurIPS 2017. Triangles of point, group center and origin: Zhang
        # et al., "Rotation invariant convolutions for 3D point clouds deep learning", 3DV 2019.
        self.count, self.neighbors, self.distances = count, neighbors, distances
        channels += dim + (3 if distances else 0)
        self.layers = nn.ModuleList(PointLayer(a, b) for a, b in pairwise([channels, *widths]))

    def forward(
        self,
        positions: Tensor,  # (B, P, dim), centered
        x: Tensor,  # (B, P, channels)
        mask: Tensor | None = None,  # (B, P)
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return group centers (B, Q, dim), features (B, Q, widths[-1]) and mask (B, Q)."""
        few, near, left = group_points(positions, self.count, self.neighbors, mask)
        centers = gather_rows(positions, few)
        y = self._see(gather_rows(positions, near), centers)
        features = (x, near) if x.shape[-1] else ()
        return centers, group_features(self.layers, y, left, *features), left

    def _see(self, positions: Tensor, centers: Tensor) -> Tensor:
        """Return the geometric features of points (B, Q, k, dim)."""
        centers = centers[:, :, None].expand_as(positions)
        sides = (positions - centers, centers, positions)
        if not self.distances:
            return sides[0]
        return torch.cat([sides[0], *map(_lengths, sides)], -1)


def _lengths(x: Tensor) -> Tensor:
    """Return lengths (..., 1), differentiable at zero too: one member of a group is its center."""
    square = x.to(computed_in(x.dtype)).square()  # which may have no number in float16
    return safe_root(square.sum(-1, keepdim=True)).to(x.dtype)


@takes_positive
class DGCNN(PointNetwork):
    """Classify clouds by dynamic edge convolutions, with the published settings.

    Batch norm of the convolutions acts on maxima over neighbors.

    Parameters
    ----------
    num_classes : int
    widths : sequence of int
        Channels of the convolutions.
    neighbors : int
        Neighbors per point and convolution; published with 40 for clouds of 2048 points.
    features : int
        Channels of the layer over all convolutions.
    hidden, dropout, dim
        See `PointNet`.

    Equivariance
    ------------
    Invariant to permutations of points.

    References
    ----------
    Wang et al., "Dynamic graph CNN for learning on point clouds", 2019.

    Examples
    --------
    >>> DGCNN(10).eval()(torch.rand(2, 100, 3)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        num_classes: int,
        widths: Sequence[int] = (64, 64, 128, 256),
        neighbors: int = 20,
        features: int = 1024,
        hidden: Sequence[int] = (512, 256),
        dropout: float = 0.5,
        dim: int = 3,
    ) -> None:
        super().__init__(dim)
        self.convolutions = nn.ModuleList(
            EdgeConv(a, b, neighbors) for a, b in pairwise([dim, *widths])
        )
        self.features = PointLayer(sum(widths), features, slope=0.2)
        self.head = PointHead(2 * features, hidden, num_classes, dropout, slope=0.2)

    def classify(self, x: Tensor, mask: Tensor | None) -> Tensor:
        seen = []
        for convolution in self.convolutions:
            x = convolution(x, mask)
            seen.append(x)
        x = self.features(torch.cat(seen, -1), mask)
        mean = x.mean(1) if mask is None else x.sum(1) / mask.sum(1, keepdim=True)
        return self.head(torch.cat([masked_max(x, mask), mean], -1))


class EdgeConv(nn.Module):
    """Edge convolution y_i = act(max_j W (x_i, x_j - x_i)) over neighbors by features."""

    def __init__(
        self,
        channels: int,
        width: int,
        neighbors: int,  # number, the point itself included
    ) -> None:
        super().__init__()
        self.neighbors = neighbors
        # Wang et al., "Dynamic graph CNN for learning on point clouds", 2019. Batch norm acts on
        # the maxima here; no features are stored per edge.
        self.center = nn.Linear(channels, width, bias=False)
        self.layer = PointLayer(channels, width, slope=0.2)

    def forward(
        self,
        x: Tensor,  # (B, P, channels)
        mask: Tensor | None = None,  # (B, P)
    ) -> Tensor:
        """Convolve features, (B, P, width), zero at padding."""
        near = find_nearest(x, self.neighbors, mask)
        # W (x_i, x_j - x_i) = (W_1 - W_2) x_i + W_2 x_j, and only the second part has a maximum.
        y = self.layer.linear(x)
        return self.layer.normalize(self.center(x) + _largest(y, near), mask)


def _largest(
    y: Tensor,  # (B, P, C)
    near: Tensor,  # (B, Q, k)
) -> Tensor:  # (B, Q, C)
    """Return the maximum of rows per channel, without a tensor of all rows (B, Q, k, C)."""
    shape = (*near.shape[:2], y.shape[2])
    rows, (batch, points) = y.flatten(0, 1), y.shape[:2]
    bags = (near + points * torch.arange(batch, device=y.device)[:, None, None]).flatten(0, 1)
    starts = bags.shape[1] * torch.arange(bags.shape[0], device=y.device)
    # Of its results only the positions of the maxima, the first of equals, which alone get a
    # gradient; its own has no derivatives. What is not a number is the largest, as for amax.
    with torch.no_grad(), rules_see_tangents(False):
        which = torch.embedding_bag(rows.nan_to_num(torch.inf), bags.flatten(), starts, mode=2)[3]
    return rows.gather(0, which).view(shape)


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
        return self.head(self.features.largest(torch.cat(seen, -1), mask))


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
