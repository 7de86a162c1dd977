"""Configuration of an AffineResNet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from equigeo.affine.models.affine_resnet_parts import (
    ConvolutionsConfig,
    FrameConfig,
    HeadConfig,
    LiftConfig,
    SamplesConfig,
    StagesConfig,
)
from equigeo.nn.config import Config
from equigeo.nn.value_range import Range


@dataclass(frozen=True)
class AffineResNetConfig(Config):
    """Configuration of :class:`AffineResNet`, in parts.

    The defaults were chosen on transformed validation digits; :meth:`paper` is the published
    network.

    Parameters
    ----------
    num_classes : int
        Number of logits.
    samples, frame, lift, convolutions, stages, head : SamplesConfig, FrameConfig, ...
        Options of the parts.
    in_channels : int
        Channels of the images: 1 for brightness, 3 for colours.

    Examples
    --------
    >>> config = AffineResNetConfig(10, stages=StagesConfig(channels=(8,), pool=(True,)))
    >>> AffineResNetConfig.from_dict(config.to_dict()) == config
    True
    """

    title: ClassVar[str] = "the configuration of an AffineResNet"
    ranges: ClassVar[Mapping[str, Range]] = {
        "num_classes": Range(1, 10**6),
        "in_channels": Range(1, 2**16),
    }

    num_classes: int
    samples: SamplesConfig = field(default_factory=SamplesConfig)
    frame: FrameConfig = field(default_factory=FrameConfig)
    lift: LiftConfig = field(default_factory=LiftConfig)
    convolutions: ConvolutionsConfig = field(default_factory=ConvolutionsConfig)
    stages: StagesConfig = field(default_factory=StagesConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    in_channels: int = 1

    def __post_init__(self) -> None:
        """Validate combinations that would otherwise fail late or silently."""
        super().__post_init__()
        if self.head.kind == "orientation" and self.samples.group != "SO":
            raise ValueError("the orientation head needs samples of SO(2)")
        if self.convolutions.norm == "batch" and self.samples.group != "SO":
            # Each draw of stretches has different statistics; running statistics average them and
            # fit none.
            raise ValueError(
                "samples of SL and GLPlus are drawn afresh for every batch, which a running batch "
                'norm cannot follow: set convolutions={"norm": "layer"}'
            )

    @classmethod
    def paper(
        cls, num_classes: int = 10, group: Literal["SL", "GLPlus"] = "SL"
    ) -> AffineResNetConfig:
        """Return the configuration of the published network over SL(2) or GL+(2).

        For ten classes it has 339,102 or 339,282 parameters. The samples are corrected.
        """
        return cls(
            num_classes,
            samples=SamplesConfig(group, 10),
            frame=FrameConfig(use=False),
            lift=LiftConfig(size=5, stride=1, padding=0),
            convolutions=ConvolutionsConfig(
                separable=False,
                network="siren",
                window="disc" if group == "SL" else "sigmoid",
                extent=1.0,
                norm="layer",
                rim=0.0,
            ),
            stages=StagesConfig(channels=(40,), pool=(True,), pooling="max", convs=2),
            head=HeadConfig(features=40, size=5, kind="max"),
        )
