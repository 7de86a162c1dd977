"""Models of every preset: affine networks and a plain baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo.affine import AffineResNet
from equigeo.nn.config import Config
from equigeo.nn.value_range import Range


@dataclass(frozen=True)
class PlainCNNConfig(Config):
    """Configuration of a ``PlainCNN``.

    Parameters
    ----------
    widths : tuple of int, channels at each resolution
    blocks : int, residual blocks at each resolution
    """

    num_classes: int
    widths: tuple[int, ...] = (16, 32, 64)
    blocks: int = 2

    ranges: ClassVar[Mapping[str, Range]] = {
        "num_classes": Range(0, 10**6, above=True),
        "widths": Range(0, 65_536, above=True),
        "blocks": Range(0, 256, above=True),
    }

    def __post_init__(self) -> None:
        """Validate ranges."""
        super().__post_init__()
        if not self.widths:
            raise ValueError("the number of widths must be positive, got ()")


class PlainCNN(nn.Module):
    """Residual convolutional network, equivariant only to translations.

    A 5 x 5 convolution, residual blocks of two 3 x 3 convolutions with batch normalisation, half
    the resolution from one width to the next, and a global maximum. The defaults take 0.09 GFLOP
    for an image of 40 x 40, as the default :class:`equigeo.affine.AffineResNet` does.

    Examples
    --------
    >>> model = PlainCNN.preset("cnn", num_classes=10).eval()
    >>> model(torch.rand(2, 1, 40, 40)).shape
    torch.Size([2, 10])
    """

    def __init__(self, config: PlainCNNConfig) -> None:
        super().__init__()
        self.config, widths = config, config.widths
        layers: list[nn.Module] = [_convolution(1, widths[0], 5), nn.ReLU()]
        for before, width in zip((widths[0], *widths[:-1]), widths, strict=True):
            if len(layers) > 2:  # the first width stays at full resolution
                layers += [nn.MaxPool2d(2), _convolution(before, width, 1), nn.ReLU()]
            layers += [_Block(width) for _ in range(config.blocks)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], config.num_classes)

    @classmethod
    def preset(cls, name: str, num_classes: int = 10) -> PlainCNN:
        """Build the only preset, ``"cnn"``."""
        if name != "cnn":
            raise ValueError(f"preset must be 'cnn', got {name!r}")
        return cls(PlainCNNConfig(num_classes))

    @classmethod
    def from_config(cls, config: PlainCNNConfig | Mapping[str, Any]) -> PlainCNN:
        """Build from ``config`` or from its ``to_dict``."""
        if isinstance(config, PlainCNNConfig):
            return cls(config)
        return cls(PlainCNNConfig.from_dict(config))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (images, classes) of grey values in [0, 1], (images, 1, height, width)."""
        logits: Tensor = self.head(torch.amax(self.body(images), dim=(2, 3)))
        return logits


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(width, width, 3), _convolution(width, width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(F.relu(self.first(x))))


def _convolution(channels_in: int, channels_out: int, size: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, size, padding=size // 2, bias=False),
        nn.BatchNorm2d(channels_out),
    )


# Each has ``preset(name, num_classes)``, ``from_config(config)`` and a ``config`` with
# ``num_classes``, and takes (images, 1, 40, 40) in [0, 1].
IMAGE_MODELS: Final[dict[str, Any]] = {
    "default": AffineResNet,
    "paper": AffineResNet,
    "cnn": PlainCNN,
}
