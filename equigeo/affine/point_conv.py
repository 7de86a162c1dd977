"""Convolutions of point clouds with low-rank kernels, and neighbors in the metric of a sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from equigeo._core.checks import (
    TensorLike,
    as_tensor,
    check_shape,
    convert_numbers,
    kind_of,
    takes_integers,
)
from equigeo._core.tensors import HALF, computed_in
from equigeo.affine.kernels import AffineKernel, KeepsKernels, KernelSpec, scaled_values
from equigeo.affine.samples import (
    Quadrature,
    check_group,
    check_window,
    field_representation,
    relative_coordinates,
)
from equigeo.groups import GroupSamples, LinearGroup
from equigeo.points import farthest_point_sampling, gather_rows, radius_neighbors
from equigeo.points.clouds import given_clouds, given_mask, hint
from equigeo.reps import Representation, Trivial


@takes_integers
class PointConvolution(KeepsKernels, ABC):
    """Base of convolutions with low-rank kernels, sums of coefficients a_m times matrices W_m."""

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, neighborhood: PointNeighborhood | None = None,
        rank: int = 16, rep_in: Representation | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if min(in_channels, out_channels, rank) < 1:
            raise ValueError(
                f"channels and rank must be positive, got {in_channels}, {out_channels} and {rank}"
            )
        self.group, self.in_channels, self.out_channels = group, in_channels, out_channels
        self.rep_in = field_representation(rep_in, group)
        self.rep_out = Trivial(group, 1)
        self.spec, self.rank = spec or KernelSpec(network="rbf"), rank
        self.neighborhood = neighborhood or PointNeighborhood()
        terms = rank * in_channels * self.rep_in.dim
        self.weight = nn.Parameter(torch.empty(out_channels, terms))
        # A sum of this many products then has the variance of its terms.
        nn.init.normal_(self.weight, std=terms**-0.5)

    def _saved_options(self) -> Mapping[str, Any]:
        return {"radius": self.neighborhood.radius}

    def extra_repr(self) -> str:
        return (
            f"{self.group}, {self.in_channels}, {self.out_channels}, rank={self.rank}, "
            f"{self.neighborhood}"
        )

    @abstractmethod
    def evaluate_kernel(
        self, near: PointNeighbors, inputs: GroupSamples, outputs: GroupSamples
    ) -> Tensor:  # (B, N_out, Q, k, N or 1, rank)
        """Return the coefficients :math:`a_m` of the kernel, with all weights."""

    def convolve(
        self,
        rows: Tensor,  # (B, P, N or 1, in_channels * rep_in.dim)
        positions: Tensor,  # (B, P, n)
        inputs: GroupSamples,
        outputs: GroupSamples,
        centers: Tensor | None,  # (B, Q, n), by default the positions
        mask: Tensor | None,  # (B, P)
    ) -> Tensor:  # (B, out_channels, N_out, Q), channels innermost in memory
        """Sum neighbor features with kernel values, then apply the matrices."""
        if mask is not None:  # zero weights times nan would be nan
            rows = rows.masked_fill(~mask[:, :, None, None], 0)
        near = self.neighborhood.find(outputs, positions, centers, mask)
        values = self.evaluate_kernel(near, inputs, outputs).flatten(3, 4)
        seen = gather_rows(rows.to(values.dtype), near.indices).flatten(3, 4)
        # Contract with the kernel first: an edge then costs rank products, not out_channels.
        if seen.shape[1] == 1:  # all samples read the same neighbors
            contracted = torch.einsum("baqkm,bqkc->bqamc", values, seen[:, 0])
        else:
            contracted = torch.einsum("baqkm,baqkc->bqamc", values, seen)
        if not isinstance(self.rep_in, Trivial):
            # fields (B, Q, N, rank, C dim) in the frame of each sample
            matrices = self.rep_in.matrix(outputs.h_inv).to(contracted)
            split = contracted.unflatten(-1, (-1, self.rep_in.dim))
            contracted = torch.einsum("ned,bqnmcd->bqnmce", matrices, split).flatten(-2)
        y = contracted.flatten(-2) @ self.weight.mT.to(contracted.dtype)
        # Under autocast the product is in half precision, which is kept.
        return (y.to(rows.dtype) if rows.dtype in HALF else y).permute(0, 3, 2, 1)

    def check_clouds(
        self,
        x: Tensor,  # (B, C, P), or (B, C, N, P)
        positions: TensorLike,  # (B, P, n)
        samples: int | None,  # N, None for fields on space
        centers: TensorLike | None,  # (B, Q, n)
        mask: TensorLike | None,  # (B, P)
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Validate clouds and convert arrays to tensors; return positions, centers and mask."""
        if not isinstance(x, Tensor):
            raise TypeError(f"features must be a Tensor, got {kind_of(x)}")
        if not x.is_floating_point():
            raise TypeError(f"features must be floating, got {x.dtype}")
        n = self.group.n
        place = as_tensor(positions, "positions", like=x)
        shape = tuple(place.shape)
        if len(shape) != 3 or shape[2] != n or shape[1] == 0:
            end = hint(shape, "positions", n)
            raise ValueError(f"positions must be (batch, points, {n}), got {shape}{end}")
        channels = self.in_channels * self.rep_in.dim
        lead = (channels,) if samples is None else (channels, samples)
        if tuple(x.shape) != (shape[0], *lead, shape[1]):
            wanted = (shape[0], *lead, shape[1])
            raise ValueError(f"features must be {wanted}, got {tuple(x.shape)}")
        middle = None if centers is None else as_tensor(centers, "centers", like=x)
        if middle is not None:
            check_shape(middle, "centers", (shape[0], "centers", n))
        for name, given in (("positions", place), ("centers", middle)):
            if given is not None and not given.is_floating_point():
                raise TypeError(f"{name} must be floating, got {given.dtype}")
        return place, middle, given_mask(mask, shape[:2])


@takes_integers
class PointGroupConv(PointConvolution):
    r"""Convolution of point clouds over space and group.

    .. math:: F'(x_i, h_a) = \sum_b \hat w_b\, \frac{1}{|N_a(i)|} \sum_{j \in N_a(i)}
              k(h_a^{-1}(x_j - x_i),\, h_a^{-1} h_b)\, F(x_j, h_b)

    Exactly equivariant, as :class:`PointLiftConv`, if both sets of samples move with the points, or
    if an element permutes them; otherwise up to the quadrature, see :class:`WindowWarning`.

    Other arguments: see :class:`PointLiftConv`.

    Parameters
    ----------
    separable : bool
        Let the coefficients :math:`a_m(u, s)` of the kernel be products :math:`a_m(u)\, b_m(s)`.
        The first factor is then evaluated once per edge and output sample instead of once per edge
        and pair of samples; the second is a sine network.
    quadrature : Quadrature, optional
        Weights and chunks of samples; requires ``measure=True``.

    Examples
    --------
    >>> from equigeo.groups import SO, finite_rotations
    >>> layer = PointGroupConv(SO(3), 4, 6)
    >>> features, points = torch.rand(2, 4, 12, 50), torch.rand(2, 50, 3)
    >>> layer(features, points, finite_rotations("tetrahedral"))[0].shape
    torch.Size([2, 6, 12, 50])
    """

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, neighborhood: PointNeighborhood | None = None,
        rank: int = 16, separable: bool = True, quadrature: Quadrature | None = None,
    ) -> None:  # fmt: skip
        # A few Gaussians cover space, but not the product of space and group.
        spec = spec or KernelSpec(network="rbf" if separable else "siren")
        super().__init__(
            group, in_channels, out_channels, spec, neighborhood=neighborhood, rank=rank
        )
        self.quadrature = quadrature or Quadrature(measure=True)
        if not self.quadrature.measure:
            raise ValueError("points are a measure: the quadrature must have measure=True")
        self.kernel: nn.Module = AffineKernel(
            group, self.rank, self.spec, grouped=not separable, cells=False
        )
        self.group_kernel: nn.Module | None = None
        if separable:
            sines = replace(self.spec, network="siren", continuous_rotation=True)
            self.group_kernel = AffineKernel(group, self.rank, sines, spatial=False)

    def forward(
        self, x: Tensor, positions: TensorLike, inputs: GroupSamples,
        outputs: GroupSamples | None = None, centers: TensorLike | None = None,
        mask: TensorLike | None = None,
    ) -> tuple[Tensor, GroupSamples]:  # fmt: skip
        """Convolve features ``(B, in_channels, N, P)`` of points on ``N`` group samples.

        Returns features ``(B, out_channels, N_out, Q)`` and ``outputs``, the samples that they are
        evaluated at (default: ``inputs``). Other arguments: see :meth:`PointLiftConv.forward`.
        """
        outputs = inputs if outputs is None else outputs
        check_group(inputs, self.group, self.weight)
        check_group(outputs, self.group, self.weight)
        place, middle, there = self.check_clouds(x, positions, len(inputs), centers, mask)
        check_window(inputs, outputs, self.spec.reach)
        rows = x.permute(0, 3, 2, 1)
        y = self.quadrature.in_chunks(
            lambda part: self.convolve(rows, place, inputs, part, middle, there), outputs, dim=2
        )
        return y, outputs

    def evaluate_kernel(
        self, near: PointNeighbors, inputs: GroupSamples, outputs: GroupSamples
    ) -> Tensor:
        u, share = near.u, near.weight
        if (group_kernel := self.group_kernel) is not None:

            def mix() -> Tensor:
                values: Tensor = group_kernel(s=relative_coordinates(outputs, inputs).to(u))
                return values * self.quadrature.weights(inputs).to(u)[:, None]

            mixing = self._kept(mix, group_kernel, (inputs, outputs), u.dtype)
            values = scaled_values(self.kernel, share, u)
            return values[..., None, :] * mixing[:, None, None]
        s = relative_coordinates(outputs, inputs).to(u)
        weight = share[..., None] * self.quadrature.weights(inputs).to(u)
        u = u[..., None, :].expand(-1, -1, -1, -1, len(inputs), -1)
        s = s[:, None, None].expand(*u.shape[:-1], -1)
        return scaled_values(self.kernel, weight, u, s)


@takes_integers
class PointLiftConv(PointConvolution):
    r"""Lifting convolution of point clouds.

    .. math:: F(x_i, h) = \frac{1}{|N_h(i)|} \sum_{j \in N_h(i)} k(h^{-1}(x_j - x_i))\,
              \rho(h)^{-1} f_j

    Points are a measure that moves with them: there are no determinants. Exactly equivariant for
    every element g = (b, A) of the affine group and any samples: points ``A x + b`` with values
    ``rho(A) f`` and samples ``A h`` give the same features. Permutations of points permute
    features. Reference: Finzi et al., "Generalizing Convolutional Neural Networks for Equivariance
    to Lie Groups on Arbitrary Continuous Data", ICML 2020; Wu, Qi and Fuxin, "PointConv", CVPR
    2019, for kernels of low rank.

    Parameters
    ----------
    group : LinearGroup
        The group ``H`` of linear parts, in 2 or 3 dimensions.
    in_channels, out_channels : int
        Fields at points, and scalar channels on the group.
    spec : KernelSpec, optional
        Network and window; ``size`` and ``extent`` are ignored. Default: Gaussians, five per axis.
    neighborhood : PointNeighborhood, optional
        Which points are read.
    rank : int
        Number of matrices of the kernel.
    rep_in : Representation, optional
        Representation of the values of a field (default: scalars).

    Examples
    --------
    >>> from equigeo.groups import SO, finite_rotations
    >>> layer = PointLiftConv(SO(3), 1, 6)
    >>> points = torch.rand(2, 50, 3)
    >>> features, _ = layer(torch.ones(2, 1, 50), points, finite_rotations("tetrahedral"))
    >>> features.shape
    torch.Size([2, 6, 12, 50])
    """

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, neighborhood: PointNeighborhood | None = None,
        rank: int = 16, rep_in: Representation | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            group, in_channels, out_channels, spec, neighborhood=neighborhood, rank=rank,
            rep_in=rep_in,
        )  # fmt: skip
        self.kernel: nn.Module = AffineKernel(
            group, self.rank, self.spec, grouped=False, cells=False
        )

    def forward(
        self, x: Tensor, positions: TensorLike, samples: GroupSamples,
        centers: TensorLike | None = None, mask: TensorLike | None = None,
    ) -> tuple[Tensor, GroupSamples]:  # fmt: skip
        """Convolve fields at points to features on group samples.

        Returns features ``(B, out_channels, N, Q)``, 0 without neighbors, and the samples.

        Parameters
        ----------
        x : Tensor, (B, in_channels * rep_in.dim, P), floating
            Fields, the components of one adjacent.
        positions : Tensor or ndarray, (B, P, n), dtype of ``x``
            Points.
        samples : GroupSamples
            The ``N`` elements at which to evaluate.
        centers : Tensor, (B, Q, n), dtype of ``x``, optional
            Where to evaluate (default: at the points).
        mask : Tensor, (B, P), bool, optional
            Which points exist; outputs at others are undefined. See
            :func:`equigeo.points.pad_clouds`.
        """
        check_group(samples, self.group, self.weight)
        place, middle, there = self.check_clouds(x, positions, None, centers, mask)
        rows = x.mT[:, :, None]
        return self.convolve(rows, place, samples, samples, middle, there), samples

    def evaluate_kernel(
        self, near: PointNeighbors, inputs: GroupSamples, outputs: GroupSamples
    ) -> Tensor:
        values = scaled_values(self.kernel, near.weight, near.u)
        return values.to(near.u.dtype)[..., None, :]


class PointNeighbors(NamedTuple):
    """Neighbors of every center and sample, with their relative positions."""

    indices: Tensor  # (B, M, Q, k), M is 1 where all samples have the same neighbors, else N
    weight: Tensor  # (B, M, Q, k), one over the number of neighbors, 0 for padding
    u: Tensor  # (B, N, Q, k, n), relative displacements h_a^-1 (x_j - x_i), in radii


@dataclass(frozen=True)
class PointNeighborhood:
    """Points inside a radius, in the metric :math:`|h^{-1}(x_j - x_i)|` of a sample ``h``.

    Every sample has its own ellipsoid, which moves with cloud and sample: equivariant, except for
    ties among distances.

    Parameters
    ----------
    radius : float
        Reach of the kernel and its unit of length; compact windows vanish there.
    k : int or None
        Read only the nearest ``k`` of these points, the point itself included. None reads all, and
        stores all pairs of points and samples.

    Examples
    --------
    >>> from equigeo.groups import finite_rotations
    >>> cloud = torch.tensor([[[0.0, 0, 0], [0.5, 0, 0], [3.0, 0, 0]]])
    >>> found = PointNeighborhood(radius=1.0, k=2).find(finite_rotations("dihedral"), cloud)
    >>> found.weight[0, 0].sort().values.tolist()
    [[0.5, 0.5], [0.5, 0.5], [0.0, 1.0]]
    """

    radius: float = 1.0
    k: int | None = 16

    def __post_init__(self) -> None:
        convert_numbers(self)
        if not self.radius > 0 or (self.k is not None and self.k < 1):
            raise ValueError(f"radius and k must be positive, got {self.radius} and {self.k}")

    def find(
        self,
        samples: GroupSamples,
        positions: Tensor,
        centers: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> PointNeighbors:
        """Find the neighbors of ``centers`` ``(B, Q, n)`` (default: all points), with gradients.

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
            # A mean over neighbors; zero without neighbors.
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
