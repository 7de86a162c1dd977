"""Convolutions on affine groups R^n ⋊ H, for images, volumes and point clouds.

Features on a group are ``(B, C, N, *S)``: batch, channels, group samples, and pixels, voxels or
points. Layers take features with their :class:`equigeo.groups.GroupSamples` and return both.
"""

from equigeo._deprecation import Renamed, renamed
from equigeo.affine.images.convolution_base import GroupConvolution
from equigeo.affine.images.group_conv import GroupConv
from equigeo.affine.images.lift_conv import LiftConv
from equigeo.affine.images.moment_frame import MomentFrame
from equigeo.affine.images.project_conv import ProjectConv
from equigeo.affine.images.separable_group_conv import SeparableGroupConv
from equigeo.affine.images.tensor_readout import TensorReadout
from equigeo.affine.kernels.affine_kernel import AffineKernel
from equigeo.affine.kernels.gabor_kernel import GaborKernel
from equigeo.affine.kernels.kernel_grid import kernel_grid
from equigeo.affine.kernels.kernel_spec import KernelSpec
from equigeo.affine.kernels.rbf_kernel import RBFKernel
from equigeo.affine.kernels.relative_coordinates import relative_coordinates, relative_points
from equigeo.affine.kernels.siren_kernel import SirenKernel
from equigeo.affine.models.affine_point_net import AffinePointNet
from equigeo.affine.models.affine_point_net_config import AffinePointNetConfig
from equigeo.affine.models.affine_resnet import AffineResNet
from equigeo.affine.models.affine_resnet_config import AffineResNetConfig
from equigeo.affine.models.affine_resnet_parts import (
    ConvolutionsConfig,
    FrameConfig,
    HeadConfig,
    LiftConfig,
    SamplesConfig,
    StagesConfig,
)
from equigeo.affine.points.farthest_points import farthest_points
from equigeo.affine.points.point_convolution_base import PointConvolution
from equigeo.affine.points.point_frame import PointFrame
from equigeo.affine.points.point_group_conv import PointGroupConv
from equigeo.affine.points.point_lift_conv import PointLiftConv
from equigeo.affine.points.point_neighborhood import PointNeighborhood, PointNeighbors
from equigeo.affine.samples.check_samples import WindowWarning
from equigeo.affine.samples.group_pool import GroupPool
from equigeo.affine.samples.quadrature import Quadrature
from equigeo.affine.samples.sample_norm import SampleBatchNorm, SampleLayerNorm

__all__ = [
    "AffineKernel",
    "AffinePointNet",
    "AffinePointNetConfig",
    "AffineResNet",
    "AffineResNetConfig",
    "ConvolutionsConfig",
    "FrameConfig",
    "GaborKernel",
    "GroupConv",
    "GroupPool",
    "HeadConfig",
    "KernelSpec",
    "LiftConfig",
    "LiftConv",
    "MomentFrame",
    "PointFrame",
    "PointGroupConv",
    "PointLiftConv",
    "PointNeighborhood",
    "ProjectConv",
    "Quadrature",
    "RBFKernel",
    "SampleBatchNorm",
    "SampleLayerNorm",
    "SamplesConfig",
    "SeparableGroupConv",
    "SirenKernel",
    "StagesConfig",
    "TensorReadout",
    "WindowWarning",
    "relative_coordinates",
]


def __dir__() -> list[str]:
    return __all__


__getattr__ = renamed(
    __name__,
    {
        "GroupConvolution": Renamed("GroupConv", "0.3", GroupConvolution),
        "PointConvolution": Renamed("PointGroupConv", "0.3", PointConvolution),
        "PointNeighbors": Renamed("PointNeighborhood.find", "0.3", PointNeighbors),
        "PoolingWindowWarning": Renamed("WindowWarning", "0.3"),
        "farthest_points": Renamed("points.farthest_point_sampling", "0.3", farthest_points),
        "kernel_grid": Renamed("KernelSpec.grid", "0.3", kernel_grid),
        "relative_points": Renamed("GroupSamples.h_inv", "0.3", relative_points),
    },
)
