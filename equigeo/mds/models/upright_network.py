"""The axis direction of embedded points that is up, and a classifier that predicts it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

DIRECTIONS = 6  # three axes, forwards and backwards


class UprightNetwork(nn.Module):
    """Classify by the sum over all axis directions that may be up."""

    # The network has a logit per class and direction. For upright training clouds the direction is
    # known, which teaches the network to distinguish lying from standing shapes.
    def __init__(
        self,
        network: nn.Module,  # maps points to the logits of all pairs, directions fastest
        num_classes: int,
    ) -> None:
        super().__init__()
        self.network, self.num_classes = network, num_classes

    def forward(
        self,
        x: Tensor,  # (B, points, dim), in principal axes
        mask: Tensor | None = None,  # (B, points), bool
    ) -> Tensor:  # (B, num_classes)
        """Return logits, the log-sum-exp over directions."""
        return self.pairs(x, mask).logsumexp(-1)

    def pairs(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the logits of pairs, (B, num_classes, directions)."""
        logits: Tensor = self.network(x, mask)
        return logits.unflatten(-1, (self.num_classes, -1))


def direction_up(
    points: Tensor,  # (..., points, dim)
    y: Tensor,  # (..., points, dim), the points in principal axes about the origin
) -> Tensor:  # (...), int64
    """Return the axis direction nearest to the last axis of space: 2 axis, plus 1 if down."""
    height = points[..., -1:] - points[..., -1:].mean(-2, keepdim=True)
    spread = y.square().sum(-2).clamp_min(torch.finfo(y.dtype).tiny)
    slope = (height * y).sum(-2) / spread  # components of the last axis of space, by least squares
    axis = slope.abs().argmax(-1, keepdim=True)
    return (2 * axis + (slope.gather(-1, axis) < 0))[..., 0]
