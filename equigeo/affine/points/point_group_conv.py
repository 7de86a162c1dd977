"""Convolution of point clouds from group to group."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.affine.kernels.affine_kernel import AffineKernel
from equigeo.affine.kernels.kernel_spec import KernelSpec
from equigeo.affine.kernels.relative_coordinates import relative_coordinates
from equigeo.affine.points.point_convolution_base import PointConvolution
from equigeo.affine.points.point_neighborhood import PointNeighborhood, PointNeighbors
from equigeo.affine.samples.check_samples import check_group, check_window
from equigeo.affine.samples.quadrature import Quadrature
from equigeo.graphs.inputs import TensorLike
from equigeo.groups import GroupSamples, LinearGroup


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
    >>> import torch
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
        """Return coefficients of the kernel on space and group."""
        u, share = near.u, near.weight[..., None]
        s = relative_coordinates(outputs, inputs).to(u)
        weight = self.quadrature.weights(inputs).to(u)[:, None]
        if self.group_kernel is not None:
            mixing = self.group_kernel(s=s) * weight
            return (self.kernel(u) * share)[..., None, :] * mixing[:, None, None]
        u = u[..., None, :].expand(-1, -1, -1, -1, len(inputs), -1)
        s = s[:, None, None].expand(*u.shape[:-1], -1)
        return self.kernel(u, s) * (share[..., None] * weight)
