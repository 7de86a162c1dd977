"""Convolutions on affine groups R^n ⋊ H, for images, volumes and point clouds.

Features on a group are ``(B, C, N, *S)``: batch, channels, group samples, and pixels, voxels or
points. Layers take features with their :class:`equigeo.groups.GroupSamples` and return both.
"""

from equigeo._core.deprecation import Renamed, private_names, renamed
from equigeo.affine.affine_point_net import AffinePointNet, AffinePointNetConfig, PointFrame
from equigeo.affine.affine_resnet import AffineResNet
from equigeo.affine.affine_resnet_config import (
    AffineResNetConfig,
    ConvolutionsConfig,
    FrameConfig,
    HeadConfig,
    LiftConfig,
    SamplesConfig,
    StagesConfig,
)
from equigeo.affine.group_conv import GroupConv, LiftConv, ProjectConv, SeparableGroupConv
from equigeo.affine.kernels import AffineKernel, KernelSpec
from equigeo.affine.moment_frame import MomentFrame, TensorReadout
from equigeo.affine.point_conv import PointGroupConv, PointLiftConv, PointNeighborhood
from equigeo.affine.samples import (
    GroupPool,
    Quadrature,
    SampleBatchNorm,
    SampleLayerNorm,
    WindowWarning,
)

__all__ = [
    "AffineKernel",
    "AffinePointNet",
    "AffinePointNetConfig",
    "AffineResNet",
    "AffineResNetConfig",
    "ConvolutionsConfig",
    "FrameConfig",
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
    "SampleBatchNorm",
    "SampleLayerNorm",
    "SamplesConfig",
    "SeparableGroupConv",
    "StagesConfig",
    "TensorReadout",
    "WindowWarning",
]
__dir__ = __all__.copy


_KERNELS, _POINTS = "equigeo.affine.kernels", "equigeo.affine.point_conv"
_SAMPLES = "equigeo.affine.samples"
_RELATIVE = "group.coordinates(outputs.h_inv[:, None] @ inputs.h)"
_PRIVATE = {
    "GaborKernel": (_KERNELS, "KernelSpec(network='gabor')"),
    "GroupConvolution": ("equigeo.affine.group_conv", "GroupConv"),
    "PointConvolution": (_POINTS, "PointGroupConv"),
    "PointNeighbors": (_POINTS, "PointNeighborhood.find"),
    "farthest_points": (_POINTS, "points.farthest_point_sampling"),
    "RBFKernel": (_KERNELS, "KernelSpec(network='rbf')"),
    "SirenKernel": (_KERNELS, "KernelSpec(network='siren')"),
    "kernel_grid": (_KERNELS, "KernelSpec.grid"),
    "relative_coordinates": (_SAMPLES, _RELATIVE),
    "relative_points": (_SAMPLES, "GroupSamples.h_inv"),
}
_OLD = {"PoolingWindowWarning": Renamed("WindowWarning", "0.3")}
__getattr__ = renamed(__name__, _OLD | private_names("0.3", _PRIVATE))
