"""Networks on affine groups."""

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

__all__ = [
    "AffinePointNet",
    "AffinePointNetConfig",
    "AffineResNet",
    "AffineResNetConfig",
    "ConvolutionsConfig",
    "FrameConfig",
    "HeadConfig",
    "LiftConfig",
    "SamplesConfig",
    "StagesConfig",
]
