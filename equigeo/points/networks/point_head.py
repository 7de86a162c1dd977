"""From what describes a cloud to logits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from equigeo.points.networks.point_layer import PointLayer


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
    >>> import torch
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
