"""Convolutions on affine groups R^n ⋊ H in which equivariance is measured, not supposed.

Features on a group are ``(B, C, N, *S)``: channels, group samples, pixels or voxels, or the points
of a cloud. Every layer takes features and :class:`equigeo.groups.GroupSamples` and gives both back.
"""

from equigeo.affine.affine_kernel import AffineKernel
from equigeo.affine.farthest_points import farthest_points
from equigeo.affine.gabor_kernel import GaborKernel
from equigeo.affine.group_conv import GroupConv
from equigeo.affine.group_convolution import GroupConvolution
from equigeo.affine.group_pool import GroupPool
from equigeo.affine.kernel_grid import kernel_grid
from equigeo.affine.kernel_spec import KernelSpec
from equigeo.affine.lift_conv import LiftConv
from equigeo.affine.models import (
    AffinePointNet,
    AffinePointNetConfig,
    AffineResNet,
    AffineResNetConfig,
)
from equigeo.affine.moment_frame import MomentFrame
from equigeo.affine.point_convolution import PointConvolution
from equigeo.affine.point_frame import PointFrame
from equigeo.affine.point_group_conv import PointGroupConv
from equigeo.affine.point_lift_conv import PointLiftConv
from equigeo.affine.point_neighborhood import PointNeighborhood
from equigeo.affine.point_neighbors import PointNeighbors
from equigeo.affine.project_conv import ProjectConv
from equigeo.affine.quadrature import Quadrature
from equigeo.affine.rbf_kernel import RBFKernel
from equigeo.affine.relative_coordinates import relative_coordinates, relative_points
from equigeo.affine.sample_norm import SampleBatchNorm, SampleLayerNorm
from equigeo.affine.separable_group_conv import SeparableGroupConv
from equigeo.affine.siren_kernel import SirenKernel
from equigeo.affine.tensor_readout import TensorReadout
from equigeo.affine.window_warning import WindowWarning

__all__ = [
    "AffineKernel",
    "AffinePointNet",
    "AffinePointNetConfig",
    "AffineResNet",
    "AffineResNetConfig",
    "GaborKernel",
    "GroupConv",
    "GroupConvolution",
    "GroupPool",
    "KernelSpec",
    "LiftConv",
    "MomentFrame",
    "PointConvolution",
    "PointFrame",
    "PointGroupConv",
    "PointLiftConv",
    "PointNeighborhood",
    "PointNeighbors",
    "ProjectConv",
    "Quadrature",
    "RBFKernel",
    "SampleBatchNorm",
    "SampleLayerNorm",
    "SeparableGroupConv",
    "SirenKernel",
    "TensorReadout",
    "WindowWarning",
    "farthest_points",
    "kernel_grid",
    "relative_coordinates",
    "relative_points",
]
