"""PointNet: a perceptron per point, and the maximum over points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from equigeo._core.tensors import computed_in
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
        for layer in self.points:
            x = layer(x, mask)
        return self.head(masked_max(x, mask))


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
        x = self.features(torch.cat(seen, -1), mask)
        return self.head(masked_max(x, mask))


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
        y = torch.cat([self._see(gather_rows(positions, near), centers), gather_rows(x, near)], -1)
        return centers, group_features(self.layers, y, left), left

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
