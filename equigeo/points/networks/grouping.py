"""Groups of neighbors around sampled points, with a small PointNet per group."""

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
    positions: Tensor,  # (B, P, dim), centred
    count: int,  # number of groups; fewer if there are fewer points
    neighbors: int,  # points per group; fewer if there are fewer points
    mask: Tensor | None = None,  # (B, P)
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Sample centres and return them (B, Q), their neighbors (B, Q, k) and their mask (B, Q)."""
    few = farthest_point_sampling(positions, min(count, positions.shape[1]), mask)
    near = nearest_neighbors(positions, neighbors, mask, centers=gather_rows(positions, few))
    if mask is not None:  # where there are fewer points, the last are padding
        order = torch.arange(few.shape[1], device=mask.device)
        mask = order < mask.sum(1, keepdim=True)
    return few, near, mask


def group_features(
    layers: nn.ModuleList,  # of `PointLayer`
    y: Tensor,  # (B, Q, k, C)
    mask: Tensor | None = None,  # (B, Q)
) -> Tensor:
    """Apply layers to group members and take the maximum per group, (B, Q, width)."""
    members = None if mask is None else mask[:, :, None].expand(y.shape[:3])
    *first, last = cast("Iterable[PointLayer]", layers)
    for layer in first:
        y = layer(y, members)
    # the ReLU of the largest is the largest ReLU, and the gradient of `max` goes to one member
    return last.rectify(last.standardize(last.linear(y), members).max(2).values)
