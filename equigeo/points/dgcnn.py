"""DGCNN: convolutions over neighbors in feature space, recomputed in every layer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from equigeo.points.clouds import gather_rows
from equigeo.points.layers import PointHead, PointLayer, PointNetwork, masked_max, takes_positive
from equigeo.points.neighbors import find_nearest


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
        # Rows of all neighbors exist without a graph alone: the backward stores one index per
        # number. The gradient goes to the first of equals.
        with torch.no_grad():
            which = near.gather(2, gather_rows(y, near).max(2).indices)
        return self.layer.normalize(self.center(x) + y.gather(1, which), mask)
