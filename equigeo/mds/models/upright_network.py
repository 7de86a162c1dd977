"""Which axis of embedded points is up: the answer, and a classifier that gives one too."""

from __future__ import annotations

import torch
from torch import Tensor, nn

DIRECTIONS = 6  # three axes, forwards and backwards


class UprightNetwork(nn.Module):
    """Classify by the sum over all directions of axes that may be up.

    The network below has a logit for every pair of a class and a direction: each axis, forwards and
    backwards. Where training clouds stand upright, the direction is known, and learning the pair
    teaches the network to tell what lies on its side from what stands.

    Parameters
    ----------
    network : nn.Module
        From points to the logits of all pairs, directions fastest.
    num_classes : int
        Number of logits that are returned.

    Equivariance
    ------------
    That of the network.

    Examples
    --------
    >>> from equigeo.mds import PointNet
    >>> model = UprightNetwork(PointNet(10 * 6), num_classes=10).eval()
    >>> model(torch.rand(2, 100, 3)).shape, model.pairs(torch.rand(2, 100, 3)).shape
    (torch.Size([2, 10]), torch.Size([2, 10, 6]))
    """

    def __init__(self, network: nn.Module, num_classes: int) -> None:
        super().__init__()
        self.network, self.num_classes = network, num_classes

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Classify.

        Parameters
        ----------
        x : Tensor, (B, points, dim), floating
            Points in axes of their own.
        mask : Tensor, (B, points), bool, optional
            Which points there are.

        Returns
        -------
        Tensor, (B, num_classes), floating
            Logits: logarithms of sums of exponentials over directions.
        """
        return self.pairs(x, mask).logsumexp(-1)

    def pairs(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Give the logits of pairs, (B, num_classes, directions), for the same arguments."""
        logits: Tensor = self.network(x, mask)
        return logits.unflatten(-1, (self.num_classes, -1))


def direction_up(points: Tensor, y: Tensor) -> Tensor:
    """Find which direction of which axis of an embedding is nearest to the last axis of space.

    Parameters
    ----------
    points : Tensor, (..., points, dim), floating
        Clouds.
    y : Tensor, (..., points, dim), floating
        The same about the origin, in principal axes.

    Returns
    -------
    Tensor, (...), int64
        Twice the number of the axis, and one more if it points down.

    Equivariance
    ------------
    Invariant under rotations of the points about the last axis, where the embedding is.

    Examples
    --------
    >>> y = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> turned = y @ torch.tensor([[0.6, -0.8], [0.8, 0.6]])
    >>> direction_up(y, y).item(), direction_up(turned, y).item()
    (2, 1)
    """
    height = points[..., -1:] - points[..., -1:].mean(-2, keepdim=True)
    spread = y.square().sum(-2).clamp_min(torch.finfo(y.dtype).tiny)
    slope = (height * y).sum(-2) / spread  # components of the last axis of space, by least squares
    axis = slope.abs().argmax(-1, keepdim=True)
    return (2 * axis + (slope.gather(-1, axis) < 0))[..., 0]
