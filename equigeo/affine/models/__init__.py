"""Networks on affine groups."""

from equigeo.affine.models.affine_resnet import AffineResNet
from equigeo.affine.models.affine_resnet_config import AffineResNetConfig

__all__ = ["AffineResNet", "AffineResNetConfig"]
