"""The encoder of the attention model: every point attends to every other."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class AttentionEncoder(nn.Module):
    """Features of points by layers of attention and of a perceptron, without positions in a row.

    Parameters
    ----------
    dim : int
        Coordinates of a point.
    channels : int
        Of every point.
    heads : int
        Of the attention; divides the channels.
    layers : int
        Number of layers.
    hidden : int
        Channels inside the perceptrons.

    Raises
    ------
    ValueError
        If a number is not positive, or the heads do not divide the channels.

    Equivariance
    ------------
    Equivariant under permutations of points; in training, batch norm couples the clouds of a batch.

    References
    ----------
    Kool, van Hoof and Welling, "Attention, learn to solve routing problems!", ICLR 2019.

    Examples
    --------
    >>> import torch
    >>> AttentionEncoder(2, 16, 4, 2, 32)(torch.rand(3, 10, 2)).shape
    torch.Size([3, 10, 16])
    """

    def __init__(self, dim: int, channels: int, heads: int, layers: int, hidden: int) -> None:
        super().__init__()
        if min(dim, channels, heads, layers, hidden) < 1 or channels % heads:
            raise ValueError(
                f"numbers must be positive and heads divide channels, got dim {dim}, channels "
                f"{channels}, heads {heads}, layers {layers}, hidden {hidden}"
            )
        self.first = nn.Linear(dim, channels)
        self.layers = nn.ModuleList(_Layer(channels, heads, hidden) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        """Encode.

        Parameters
        ----------
        x : Tensor, (B, points, dim), floating
            Coordinates.

        Returns
        -------
        Tensor, (B, points, channels), floating
            Features.
        """
        h = self.first(x)
        for layer in self.layers:
            h = layer(h)
        return h


class _Layer(nn.Module):
    """Attention and perceptron, each with a skip and batch norm."""

    def __init__(self, channels: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(channels, 3 * channels, bias=False)
        self.unite = nn.Linear(channels, channels, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, channels)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(channels) for _ in range(2))

    def forward(self, h: Tensor) -> Tensor:
        clouds, points, channels = h.shape
        rows = h.reshape(-1, channels)
        q, k, v = (
            self.project(rows)
            .view(clouds, points, 3, self.heads, channels // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        heard = _attend(q, k, v).transpose(1, 2).reshape(-1, channels)
        rows = self.norms[0](rows + self.unite(heard))
        return self.norms[1](rows + self.mlp(rows)).view(clouds, points, channels)


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Do what :func:`torch.nn.functional.scaled_dot_product_attention` does, term by term.

    That has one derivative, in reverse mode, and for tours of cities takes as long.
    """
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v
