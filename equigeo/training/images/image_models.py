"""The model of every preset of the image classifier."""

from __future__ import annotations

from typing import Any, Final

from equigeo.affine import AffineResNet
from equigeo.training.images.plain_cnn import PlainCNN

# Each has ``preset(name, num_classes)``, ``from_config(config)`` and a ``config`` of JSON types
# with ``num_classes``, and takes (images, 1, 40, 40) in [0, 1].
IMAGE_MODELS: Final[dict[str, Any]] = {
    "default": AffineResNet,
    "paper": AffineResNet,
    "cnn": PlainCNN,
}
