"""Groups of neighbours around a few points of a cloud, and a small PointNet on each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from equigeo.points.farthest_point_sampling import farthest_point_sampling
from equigeo.points.gather_rows import gather_rows
from equigeo.points.nearest_neighbors import nearest_neighbors
from equigeo.points.networks.layers import PointLayer


def group_points(
    positions: Tensor, count: int, neighbors: int, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Spread a few points over a cloud and find the neighbours of each.

    Parameters
    ----------
    positions : Tensor, (B, P, dim), floating
        Clouds, about the origin.
    count : int
        How many points stand for their surroundings; of fewer, all.
    neighbors : int
        Points of a group; of fewer, all.
    mask : Tensor, (B, P), bool, optional
        Which points there are.

    Returns
    -------
    tuple of Tensor (B, Q), Tensor (B, Q, k), Tensor (B, Q) or None
        Positions of the middles and of their neighbours in the clouds, int64; and which middles
        there are, where there is a mask.

    Equivariance
    ------------
    Invariant to rotations about the origin, and equivariant to permutations, but for ties.

    Examples
    --------
    >>> line = torch.tensor([[[0.0], [1.0], [9.0], [4.0]]])
    >>> middles, near, _ = group_points(line, 2, 2)
    >>> middles.tolist(), near.tolist()
    ([[2, 0]], [[[2, 3], [0, 1]]])
    """
    few = farthest_point_sampling(positions, min(count, positions.shape[1]), mask)
    near = nearest_neighbors(positions, neighbors, mask, centers=gather_rows(positions, few))
    if mask is not None:  # where there are fewer points, the last are padding
        order = torch.arange(few.shape[1], device=mask.device)
        mask = order < mask.sum(1, keepdim=True)
    return few, near, mask


def group_features(layers: nn.ModuleList, y: Tensor, mask: Tensor | None = None) -> Tensor:
    """Pass the members of groups through layers and take the maximum over each group.

    Parameters
    ----------
    layers : nn.ModuleList
        Of :class:`equigeo.points.networks.layers.PointLayer`.
    y : Tensor, (B, Q, k, C), floating
        What is seen of the k members of Q groups.
    mask : Tensor, (B, Q), bool, optional
        Which groups there are.

    Returns
    -------
    Tensor, (B, Q, width), floating
        Features of the groups; zero where there is none.

    Equivariance
    ------------
    Invariant to permutations of members, equivariant to those of groups.

    Examples
    --------
    >>> from equigeo.points.networks.layers import PointLayer
    >>> group_features(nn.ModuleList([PointLayer(3, 8)]), torch.rand(2, 10, 4, 3)).shape
    torch.Size([2, 10, 8])
    """
    members = None if mask is None else mask[:, :, None].expand(y.shape[:3])
    *first, last = cast("Iterable[PointLayer]", layers)
    for layer in first:
        y = layer(y, members)
    # the ReLU of the largest is the largest ReLU, and the gradient of `max` goes to one member
    return last.rectify(last.standardize(last.linear(y), members).max(2).values)
