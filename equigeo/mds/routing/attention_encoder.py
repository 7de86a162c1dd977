"""The encoder of the attention model: every point attends to every other."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class AttentionEncoder(nn.Module):
    """Attention encoder of points without positional encoding (Kool et al., ICLR 2019)."""

    def __init__(
        self,
        dim: int,  # coordinates per point
        channels: int,
        heads: int,
        layers: int,
        hidden: int,  # channels inside the perceptrons
    ) -> None:
        super().__init__()
        if min(dim, channels, heads, layers, hidden) < 1 or channels % heads:
            raise ValueError(
                f"numbers must be positive and heads divide channels, got dim {dim}, channels "
                f"{channels}, heads {heads}, layers {layers}, hidden {hidden}"
            )
        self.first = nn.Linear(dim, channels)
        self.layers = nn.ModuleList(_Layer(channels, heads, hidden) for _ in range(layers))

    def forward(
        self,
        x: Tensor,  # (B, points, dim)
    ) -> Tensor:  # (B, points, channels)
        """Encode points."""
        h = self.first(x)
        for layer in self.layers:
            h = layer(h)
        return h


class _Layer(nn.Module):
    """Attention and perceptron, each with a skip connection and batch norm."""

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
    """Compute scaled dot-product attention from elementary ops."""
    # PyTorch's fused function supports only first-order reverse mode, and is not faster here.
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v
