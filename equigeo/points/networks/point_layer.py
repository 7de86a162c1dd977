"""A linear map of channels, normalised."""

from __future__ import annotations

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
    >>> import torch
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
        if mask is None:
            return F.leaky_relu(self.norm(y.reshape(-1, y.shape[-1])), self.slope).view(y.shape)
        there = F.leaky_relu(self.norm(y[mask]), self.slope)
        return y.new_zeros(y.shape).masked_scatter(mask[..., None], there.to(y.dtype))
