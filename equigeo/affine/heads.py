"""Heads that map features on a group to logits."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from equigeo.affine.affine_resnet_config import HeadConfig
from equigeo.affine.samples import GroupPool
from equigeo.groups import GroupSamples

# Factors on attention scores and on the prior, whose weights start at zero: an optimizer step
# changes scores 4x and the prior 40x as much as a plain linear layer. Chosen on transformed
# validation digits.
_SHARPNESS = 4
_PRIOR_SHARPNESS = 40


class OrientationHead(nn.Module):
    """Compute logits at one orientation, found by attention over rotations."""

    # l = W sum_i a_i x_i + b with a = softmax_i(4 u . x_i + 40 p(theta_i) - (theta_i / w)^4). All
    # classes share one score, so that they are evaluated at the same orientation. Invariant to
    # rotations unless the prior p is trained or there is a window.
    def __init__(
        self,
        channels: int,
        num_classes: int,
        window: float = 180.0,  # w in degrees; 180 or more disables it
        dropout: float = 0.0,  # applied to channels after the attention
        prior: int = 0,  # number of frequencies of p, a Fourier series that starts at zero
        # largest error in degrees of the angles of p in training, so that it stays smooth
        prior_noise: float = 0.0,
    ) -> None:
        super().__init__()
        self.window = window
        self.prior_noise = prior_noise
        self.prior = nn.Parameter(torch.zeros(2 * prior))  # of cosines, then of sines
        self.attend = nn.Linear(channels, 1, bias=False)
        nn.init.zeros_(self.attend.weight)  # at first a mean over the window
        self.dropout = nn.Dropout(dropout)
        self.classify = nn.Linear(channels, num_classes)

    def forward(
        self,
        x: Tensor,  # (B, C, N, *S)
        samples: GroupSamples,  # rotations of the plane
    ) -> Tensor:  # (B, num_classes)
        """Compute logits, averaging pixels."""
        x = x.flatten(3).mean(3)
        weight = self.attention(x, samples)
        return self.classify(self.dropout((x * weight[:, None]).sum(2)))

    def attention(
        self,
        x: Tensor,  # (B, C, N)
        samples: GroupSamples,  # rotations of the plane
    ) -> Tensor:  # (B, N), sum 1
        """Return the weights of the orientations."""
        score = _SHARPNESS * self.attend(x.mT)[..., 0]
        angle = samples.coordinates[:, -1].to(x)
        if len(self.prior):
            seen = angle
            if self.training and self.prior_noise:
                error = math.radians(self.prior_noise) * (2 * torch.rand_like(x[:, :1, 0]) - 1)
                seen = angle + error
            order = torch.arange(1, len(self.prior) // 2 + 1, device=x.device)
            turns = seen[..., None] * order.to(x.dtype)
            waves = torch.cat([turns.cos(), turns.sin()], -1)
            score = score + _PRIOR_SHARPNESS * waves @ self.prior
        if self.window < 180:
            # A fourth power is smooth, flat inside the window and steep at its rim.
            score = score - (angle / math.radians(self.window)) ** 4
        return score.softmax(1)


class MaxHead(nn.Module):
    """Compute logits by a maximum over group and space and a perceptron."""

    def __init__(
        self,
        channels: int,
        num_classes: int,
        dropout: float = 0.0,  # applied to hidden channels
        hidden: int = 256,  # width of the perceptron
    ) -> None:
        super().__init__()
        self.pool = GroupPool("max")
        self.classify = nn.Sequential(
            nn.Linear(channels, hidden, bias=False),
            nn.LayerNorm(hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, num_classes),
        )

    def forward(
        self,
        x: Tensor,  # (B, C, N, *S)
        samples: GroupSamples,
    ) -> Tensor:  # (B, num_classes)
        """Compute logits."""
        return self.classify(self.pool(x, samples))


def make_head(config: HeadConfig, num_classes: int) -> nn.Module:
    """Build the head of a configuration, which maps features and samples to logits."""
    if config.kind == "max":
        return MaxHead(config.features, num_classes, config.dropout)
    return OrientationHead(
        config.features,
        num_classes,
        config.window,
        config.dropout,
        config.prior,
        config.prior_noise,
    )
