"""Convolutions on affine groups R^n ⋊ H, for images, volumes and point clouds.

Features on a group are ``(B, C, N, *S)``: batch, channels, group samples, and pixels, voxels or
points. Layers take features with their :class:`equigeo.groups.GroupSamples` and return both.
"""

from equigeo._core.deprecation import Renamed, renamed
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
from equigeo.affine.group_conv import (
    GroupConv,
    GroupConvolution,
    LiftConv,
    ProjectConv,
    SeparableGroupConv,
)
from equigeo.affine.kernels import (
    AffineKernel,
    GaborKernel,
    KernelSpec,
    RBFKernel,
    SirenKernel,
    kernel_grid,
)
from equigeo.affine.moment_frame import MomentFrame, TensorReadout
from equigeo.affine.point_conv import (
    PointConvolution,
    PointGroupConv,
    PointLiftConv,
    PointNeighborhood,
    PointNeighbors,
    farthest_points,
)
from equigeo.affine.samples import (
    GroupPool,
    Quadrature,
    SampleBatchNorm,
    SampleLayerNorm,
    WindowWarning,
    relative_coordinates,
    relative_points,
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


_BY_NAME = "KernelSpec(network="
__getattr__ = renamed(
    __name__,
    {
        "GaborKernel": Renamed(f"{_BY_NAME}'gabor')", "0.3", GaborKernel),
        "GroupConvolution": Renamed("GroupConv", "0.3", GroupConvolution),
        "PointConvolution": Renamed("PointGroupConv", "0.3", PointConvolution),
        "PointNeighbors": Renamed("PointNeighborhood.find", "0.3", PointNeighbors),
        "PoolingWindowWarning": Renamed("WindowWarning", "0.3"),
        "farthest_points": Renamed("points.farthest_point_sampling", "0.3", farthest_points),
        "RBFKernel": Renamed(f"{_BY_NAME}'rbf')", "0.3", RBFKernel),
        "SirenKernel": Renamed(f"{_BY_NAME}'siren')", "0.3", SirenKernel),
        "kernel_grid": Renamed("KernelSpec.grid", "0.3", kernel_grid),
        "relative_coordinates": Renamed(
            "group.coordinates(outputs.h_inv[:, None] @ inputs.h)", "0.3", relative_coordinates
        ),
        "relative_points": Renamed("GroupSamples.h_inv", "0.3", relative_points),
    },
)
