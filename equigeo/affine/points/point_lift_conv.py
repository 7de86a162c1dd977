"""Lifting convolution of point clouds."""

from __future__ import annotations

from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.affine.kernels.affine_kernel import AffineKernel
from equigeo.affine.kernels.kernel_spec import KernelSpec
from equigeo.affine.points.point_convolution_base import PointConvolution
from equigeo.affine.points.point_neighborhood import PointNeighborhood, PointNeighbors
from equigeo.affine.samples.check_samples import check_group
from equigeo.graphs.inputs import TensorLike
from equigeo.groups import GroupSamples, LinearGroup
from equigeo.reps import Representation


@takes_integers
class PointLiftConv(PointConvolution):
    r"""Lifting convolution of point clouds.

    .. math:: F(x_i, h) = \frac{1}{|N_h(i)|} \sum_{j \in N_h(i)} k(h^{-1}(x_j - x_i))\,
              \rho(h)^{-1} f_j

    Points are a measure that moves with them: there are no determinants. The mean over neighbours
    makes results independent of the sampling density.

    Exactly equivariant for every element g = (b, A) of the affine group and any samples: points ``A
    x + b`` with values ``rho(A) f`` and samples ``A h`` give the same features. Permutations of
    points permute features. Reference: Finzi et al., "Generalizing Convolutional Neural Networks
    for Equivariance to Lie Groups on Arbitrary Continuous Data", ICML 2020; Wu, Qi and Fuxin,
    "PointConv", CVPR 2019, for kernels of low rank.

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
    >>> import torch
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

        Returns features ``(B, out_channels, N, Q)``, 0 without neighbours, and the samples.

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
        """Return coefficients of the kernel on space."""
        values = self.kernel(near.u).to(near.u.dtype) * near.weight[..., None]
        return values[..., None, :]
