"""The convolution of DGCNN."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo.points.gather_rows import take_rows
from equigeo.points.nearest_neighbors import nearest_points
from equigeo.points.networks.point_layer import PointLayer


class EdgeConv(nn.Module):
    r"""The greatest of what a point sees in its neighbours.

    .. math:: y_i = \sigma(\max_j W (x_i \oplus (x_j - x_i)))

    The neighbours j are the nearest by features. The linear map is taken apart, so that no number
    is stored for an edge; batch norm reads the maxima.

    Parameters
    ----------
    channels, width : int
        Numbers of a point before and after.
    neighbors : int
        How many, the point itself included.

    Equivariance
    ------------
    To permutations of points, but for ties among distances.

    References
    ----------
    Wang et al., "Dynamic graph CNN for learning on point clouds", 2019.

    Examples
    --------
    >>> EdgeConv(3, 8, 4)(torch.rand(2, 100, 3)).shape
    torch.Size([2, 100, 8])
    """

    def __init__(self, channels: int, width: int, neighbors: int) -> None:
        super().__init__()
        self.neighbors = neighbors
        self.center = nn.Linear(channels, width, bias=False)
        self.layer = PointLayer(channels, width, slope=0.2)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Look at neighbours.

        Parameters
        ----------
        x : Tensor, (B, P, channels), floating
            Features.
        mask : Tensor, (B, P), bool, optional
            Which points there are.

        Returns
        -------
        Tensor, (B, P, width), floating
            Features; zero where there is no point.
        """
        near = nearest_points(x, self.neighbors, mask)
        y = self.layer.linear(x)
        return self.layer.normalize(self.center(x) + _greatest_neighbor(y, near), mask)


def _greatest_neighbor(y: Tensor, near: Tensor) -> Tensor:
    """Maxima over neighbours, (B, P, C); a gradient reaches the first that is greatest."""
    with torch.no_grad():
        which = take_rows(y, near).max(2).indices
        which = near.gather(2, which)
    return y.gather(1, which)
