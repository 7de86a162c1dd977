"""Neighbours of points in the metric of a group sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from equigeo._core.checks import TensorLike, convert_integers
from equigeo._core.tensors import computed_in
from equigeo.groups import GroupSamples
from equigeo.points import farthest_point_sampling, gather_rows, radius_neighbors
from equigeo.points.clouds import given_clouds


class PointNeighbors(NamedTuple):
    """Neighbours of every centre and sample, with their relative positions."""

    indices: Tensor  # (B, M, Q, k), M is 1 where all samples have the same neighbours, else N
    weight: Tensor  # (B, M, Q, k), one over the number of neighbours, 0 for padding
    u: Tensor  # (B, N, Q, k, n), relative displacements h_a^-1 (x_j - x_i), in radii

    def take(self, rows: Tensor) -> Tensor:
        """Gather rows ``(B, P, *F)`` at the neighbours, ``(B, M, Q, k, *F)``."""
        return gather_rows(rows, self.indices)


@dataclass(frozen=True)
class PointNeighborhood:
    """Points inside a radius, in the metric :math:`|h^{-1}(x_j - x_i)|` of a sample ``h``.

    Every sample has its own ellipsoid, which moves with cloud and sample. A Euclidean ball would be
    equivariant to rotations only.

    Equivariant, except for ties among distances.

    Parameters
    ----------
    radius : float
        Reach of the kernel and its unit of length; compact windows vanish there.
    k : int or None
        Read only the nearest ``k`` of these points, the point itself included. None reads all, and
        stores all pairs of points and samples.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import finite_rotations
    >>> cloud = torch.tensor([[[0.0, 0, 0], [0.5, 0, 0], [3.0, 0, 0]]])
    >>> found = PointNeighborhood(radius=1.0, k=2).find(finite_rotations("dihedral"), cloud)
    >>> found.weight[0, 0].sort().values.tolist()
    [[0.5, 0.5], [0.5, 0.5], [0.0, 1.0]]
    """

    radius: float = 1.0
    k: int | None = 16

    def __post_init__(self) -> None:
        """Validate the numbers."""
        convert_integers(self)
        if not self.radius > 0 or (self.k is not None and self.k < 1):
            raise ValueError(f"radius and k must be positive, got {self.radius} and {self.k}")

    def find(
        self,
        samples: GroupSamples,
        positions: Tensor,
        centers: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> PointNeighbors:
        """Find the neighbours of ``centers`` ``(B, Q, n)`` (default: all points), with gradients.

        ``positions`` are clouds ``(B, P, n)``; ``mask`` ``(B, P)`` tells which points exist. Half
        precision is computed in float32.
        """
        positions = positions.to(computed_in(positions.dtype))
        if mask is not None:
            positions = positions.masked_fill(~mask[..., None], 0)
        centers = positions if centers is None else centers.to(computed_in(centers.dtype))
        h_inv = samples.h_inv.to(positions)
        # Rotations preserve distances: one search suffices for all samples.
        metrics = h_inv[:1] if samples.group.symmetric_dimension == 0 else h_inv
        with torch.no_grad():
            indices, inside = radius_neighbors(
                positions[:, None] @ metrics.mT,
                self.radius,
                self.k,
                None if mask is None else mask[:, None],
                centers=centers[:, None] @ metrics.mT,
            )
            # A mean over neighbours; zero without neighbours.
            share = inside.to(positions.dtype)
            weight = share / share.sum(-1, keepdim=True).clamp_min(1)
        displacement = gather_rows(positions, indices) - centers[:, None, :, None]
        u = displacement.expand(-1, len(h_inv), -1, -1, -1) @ h_inv.mT[:, None] / self.radius
        return PointNeighbors(indices, weight, u)


def farthest_points(
    points: TensorLike,  # (B, P, n)
    count: int,
) -> Tensor:  # (B, count), the first m are the selection of m points
    """Select points by farthest point sampling, starting with the farthest from the mean."""
    cloud = given_clouds(points)
    # Contiguous, so that the order of the sum and the selection do not depend on strides.
    mean = cloud.mT.contiguous().mean(2)
    return farthest_point_sampling(cloud, count, origin=mean)
