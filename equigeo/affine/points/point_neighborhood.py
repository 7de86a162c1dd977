"""Which points of a cloud are near, for a group sample."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.affine.points.point_neighbors import PointNeighbors, take_rows
from equigeo.groups import GroupSamples


@dataclass(frozen=True)
class PointNeighborhood:
    r"""Points inside a radius, in the metric :math:`|h^{-1}(x_j - x_i)|` of a sample ``h``.

    Every sample has its own ellipsoid, which moves with cloud and sample. A Euclidean ball would
    be the same for all of them, and be equivariant to rotations only.

    Parameters
    ----------
    radius : float
        Reach of the kernel and its unit of length; compact windows vanish there.
    k : int or None
        Read only the nearest ``k`` of these points, the point itself included. None reads all,
        and makes and stores all pairs of points and samples.

    Raises
    ------
    ValueError
        If a number is not positive.

    Equivariance
    ------------
    Exact but for ties: which of two points at one distance is the k-th nearest is up to rounding.

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
        """Check the numbers."""
        if not self.radius > 0 or (self.k is not None and self.k < 1):
            raise ValueError(f"radius and k must be positive, got {self.radius} and {self.k}")

    def find(
        self,
        samples: GroupSamples,
        positions: Tensor,
        centers: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> PointNeighbors:
        """Find the neighbours of centres.

        Parameters
        ----------
        samples : GroupSamples
            The ``N`` elements whose metrics count.
        positions : Tensor, (B, P, n), floating
            The cloud.
        centers : Tensor, (B, Q, n), dtype of ``positions``, optional
            Where to look from; the points themselves by default.
        mask : Tensor, (B, P), bool, optional
            Which points exist, in batches of clouds of different sizes.

        Returns
        -------
        PointNeighbors
            With displacements that carry gradients.
        """
        centers = positions if centers is None else centers
        h_inv = samples.h_inv.to(positions)
        # Rotations keep distances: one search serves all of them.
        metrics = h_inv[:1] if samples.group.symmetric_dimension == 0 else h_inv
        with torch.no_grad():
            indices, weight = self._search(metrics, positions, centers, mask)
        displacement = take_rows(positions, indices) - centers[:, None, :, None]
        u = displacement.expand(-1, len(h_inv), -1, -1, -1) @ h_inv.mT[:, None] / self.radius
        return PointNeighbors(indices, weight, u)

    def _search(
        self, metrics: Tensor, positions: Tensor, centers: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        seen, origin = positions[:, None] @ metrics.mT, centers[:, None] @ metrics.mT
        distance = torch.cdist(origin, seen, compute_mode="donot_use_mm_for_euclid_dist")
        if mask is not None:
            distance = distance.masked_fill(~mask[:, None, None], float("inf"))
        if self.k is None:
            indices = torch.arange(positions.shape[1], device=positions.device)
            indices = indices.expand(distance.shape)
        else:
            count = min(self.k, positions.shape[1])
            distance, indices = distance.topk(count, largest=False, sorted=False)
        inside = (distance <= self.radius).to(distance.dtype)
        return indices, inside / inside.sum(-1, keepdim=True).clamp_min(1)
