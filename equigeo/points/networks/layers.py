"""Layers of point networks: a normalised linear map, a head, a maximum that knows padding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PointLayer(nn.Module):
    """A linear map, batch norm over all rows, and a ReLU.

    Parameters
    ----------
    channels, width : int
        Numbers of a row before and after.
    slope : float
        Of the ReLU for negative numbers.

    Equivariance
    ------------
    To permutations of rows.

    Examples
    --------
    >>> PointLayer(3, 8)(torch.rand(2, 100, 3)).shape
    torch.Size([2, 100, 8])
    """

    def __init__(self, channels: int, width: int, slope: float = 0.0) -> None:
        super().__init__()
        self.slope = slope
        self.linear = nn.Linear(channels, width, bias=False)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map every row.

        Parameters
        ----------
        x : Tensor, (..., channels), floating
            Rows.
        mask : Tensor, (...), bool, optional
            Which of them there are.

        Returns
        -------
        Tensor, (..., width), floating
            Rows; those that are not there are zero, and no part of the statistics.
        """
        return self.normalize(self.linear(x), mask)

    def normalize(self, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Do what comes after the linear map.

        Parameters
        ----------
        y : Tensor, (..., width), floating
            Rows.
        mask : Tensor, (...), bool, optional
            Which of them there are.
        """
        return self.rectify(self.standardize(y, mask))

    def standardize(self, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Do what comes between the linear map and the ReLU.

        Parameters
        ----------
        y : Tensor, (..., width), floating
            Rows.
        mask : Tensor, (...), bool, optional
            Which of them there are.
        """
        if mask is None:
            return self.norm(y.reshape(-1, y.shape[-1])).view(y.shape)
        there = self.norm(y[mask])
        return y.new_zeros(y.shape).masked_scatter(mask[..., None], there.to(y.dtype))

    def rectify(self, y: Tensor) -> Tensor:
        """Apply the ReLU: to what `standardize` gives, or to the maximum of several such rows."""
        return F.leaky_relu(y, self.slope)


class PointHead(nn.Module):
    """Layers, dropout and a linear map.

    Parameters
    ----------
    channels : int
        Numbers that describe a cloud.
    hidden : sequence of int
        Channels of the layers.
    num_classes : int
        Number of logits.
    dropout : float
        Share of channels set to zero after every layer.
    slope : float
        Of the ReLU for negative numbers.

    Examples
    --------
    >>> PointHead(8, (16,), 10, 0.5)(torch.rand(4, 8)).shape
    torch.Size([4, 10])
    """

    def __init__(
        self,
        channels: int,
        hidden: Sequence[int],
        num_classes: int,
        dropout: float,
        slope: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [channels, *hidden]
        self.hidden = nn.ModuleList(PointLayer(a, b, slope) for a, b in pairwise(widths))
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(widths[-1], num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Classify.

        Parameters
        ----------
        x : Tensor, (B, channels), floating
            Rows.

        Returns
        -------
        Tensor, (B, num_classes), floating
            Logits.
        """
        for layer in self.hidden:
            x = self.dropout(layer(x))
        return self.last(x)


def masked_max(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Take the maximum over points, channel by channel.

    Parameters
    ----------
    x : Tensor, (B, P, C), floating
        Features.
    mask : Tensor, (B, P), bool, optional
        Which points there are, one at least.

    Returns
    -------
    Tensor, (B, C), dtype of ``x``
        The maxima.

    Examples
    --------
    >>> x = torch.tensor([[[-1.0], [-2.0], [0.0]]])
    >>> masked_max(x, torch.tensor([[True, True, False]]))
    tensor([[-1.]])
    """
    there = x if mask is None else x.masked_fill(~mask[..., None], -torch.inf)
    return there.max(1).values  # not `amax`, whose gradient compares all points
