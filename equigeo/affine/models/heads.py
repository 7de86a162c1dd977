"""From features on a group to logits."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from equigeo.affine.group_pool import GroupPool
from equigeo.groups import GroupSamples


class OrientationHead(nn.Module):
    r"""Logits at each orientation, and a soft maximum of them near the upright one.

    .. math:: \ell = \tfrac12 \log \sum_i \exp\bigl(2\,\ell_i - (\theta_i / w)^4\bigr)

    Parameters
    ----------
    channels, num_classes : int
        Channels in, logits out.
    window : float
        ``w`` in degrees; 180 or more weighs all orientations alike.
    dropout : float
        Share of channels set to zero in training.

    Equivariance
    ------------
    Invariant to rotations without window. With one, orientations beyond it do not count: what is
    turned by a small part of it gives nearly the same logits, what stands on its head does not,
    so that 6 and 9 stay apart.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import equidistant_rotations
    >>> head = OrientationHead(6, 10, window=60.0)
    >>> head(torch.rand(2, 6, 12, 1, 1), equidistant_rotations(12)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self, channels: int, num_classes: int, window: float, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.window = window
        self.dropout = nn.Dropout(dropout)
        self.classify = nn.Linear(channels, num_classes)

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        """Classify.

        Parameters
        ----------
        x : Tensor, (B, C, N, *S), floating
            Features; pixels are averaged.
        samples : GroupSamples
            Rotations of the plane that they live on.

        Returns
        -------
        Tensor, (B, num_classes), dtype of ``x``
            Logits.
        """
        logits = 2 * self.classify(self.dropout(x.flatten(3).mean(3).mT))
        if self.window < 180:
            angle = samples.coordinates[:, -1].to(x)
            logits = logits - (angle / math.radians(self.window))[:, None] ** 4
        return torch.logsumexp(logits, dim=1) / 2


class MaxHead(nn.Module):
    """Maximum over group and space, then a perceptron.

    Parameters
    ----------
    channels, num_classes : int
        Channels in, logits out.
    dropout : float
        Share of hidden channels set to zero in training.
    hidden : int
        Width of the perceptron.

    Equivariance
    ------------
    Invariant up to the window of the samples.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import equidistant_rotations
    >>> MaxHead(6, 10)(torch.rand(2, 6, 8, 3, 3), equidistant_rotations(8)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self, channels: int, num_classes: int, dropout: float = 0.0, hidden: int = 256
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

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        """Classify.

        Parameters
        ----------
        x : Tensor, (B, C, N, *S), floating
            Features.
        samples : GroupSamples
            Samples that they live on.

        Returns
        -------
        Tensor, (B, num_classes), dtype of ``x``
            Logits.
        """
        return self.classify(self.pool(x, samples))
