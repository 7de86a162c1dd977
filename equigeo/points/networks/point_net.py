"""PointNet: a perceptron per point, and the maximum over points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.points.networks.layers import PointHead, PointLayer, masked_max
from equigeo.points.networks.point_network import PointNetwork, check_positive


@takes_integers
class PointNet(PointNetwork):
    """Classify clouds by features of single points.

    PointNet without input transforms and of half the width; the published size is
    ``widths=(64, 64, 64, 128, 1024), hidden=(512, 256)``.

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
        check_positive(dropout, num_classes=num_classes, dim=dim, widths=widths, hidden=hidden)
        self.points = nn.ModuleList(PointLayer(a, b) for a, b in pairwise([dim, *widths]))
        self.head = PointHead(widths[-1], hidden, num_classes, dropout)

    def classify(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Classify a zero-padded batch, (B, points, dim), to (B, num_classes)."""
        for layer in self.points:
            x = layer(x, mask)
        return self.head(masked_max(x, mask))
