"""The layer of PointNet++."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.linalg import vector_norm

from equigeo.points.gather_rows import take_rows
from equigeo.points.networks.group_network import see_groups
from equigeo.points.networks.group_points import group_points
from equigeo.points.networks.point_layer import PointLayer


class SetAbstraction(nn.Module):
    """Small PointNets, each of which sees one group of neighbours from its middle.

    With distances, a point is seen beside its coordinates by the sides of the triangle that it
    forms with the middle of its group and the origin, which no rotation changes.

    Parameters
    ----------
    channels : int
        Features of a point, beside its coordinates.
    widths : sequence of int
        Channels of the layers; a maximum over the group follows them.
    count : int
        Points that are left.
    neighbors : int
        Points of a group.
    dim : int
        Coordinates of a point.
    distances : bool
        Whether to see sides of triangles too.

    Equivariance
    ------------
    Features are invariant to permutations, but for ties among distances, and without distances to
    translations.

    References
    ----------
    Qi et al., "PointNet++: Deep hierarchical feature learning on point sets in a metric space",
    NeurIPS 2017; Zhang et al., "Rotation invariant convolutions for 3D point clouds deep learning",
    3DV 2019, where the triangles are from.

    Examples
    --------
    >>> layer = SetAbstraction(0, (16, 32), count=10, neighbors=8)
    >>> places, features, _ = layer(torch.rand(2, 100, 3), torch.empty(2, 100, 0))
    >>> places.shape, features.shape
    (torch.Size([2, 10, 3]), torch.Size([2, 10, 32]))
    """

    def __init__(
        self,
        channels: int,
        widths: Sequence[int],
        count: int,
        neighbors: int,
        dim: int = 3,
        *,
        distances: bool = False,
    ) -> None:
        super().__init__()
        self.count, self.neighbors, self.distances = count, neighbors, distances
        channels += dim + (3 if distances else 0)
        self.layers = nn.ModuleList(PointLayer(a, b) for a, b in pairwise([channels, *widths]))

    def forward(
        self, places: Tensor, x: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Look at groups.

        Parameters
        ----------
        places : Tensor, (B, P, dim), floating
            Points, about the origin.
        x : Tensor, (B, P, channels), floating
            Their features.
        mask : Tensor, (B, P), bool, optional
            Which points there are.

        Returns
        -------
        tuple of Tensor (B, Q, dim), Tensor (B, Q, widths[-1]), Tensor (B, Q) or None
            The points that are left, their features, and which of them there are.
        """
        few, near, left = group_points(places, self.count, self.neighbors, mask)
        centers = take_rows(places, few)
        y = torch.cat([self._see(take_rows(places, near), centers), take_rows(x, near)], -1)
        return centers, see_groups(self.layers, y, left), left

    def _see(self, places: Tensor, centers: Tensor) -> Tensor:
        """What is known of points (B, Q, k, dim) beside their features."""
        centers = centers[:, :, None].expand_as(places)
        sides = (places - centers, centers, places)
        if not self.distances:
            return sides[0]
        return torch.cat(
            [sides[0], *(vector_norm(side, dim=-1, keepdim=True) for side in sides)], -1
        )
