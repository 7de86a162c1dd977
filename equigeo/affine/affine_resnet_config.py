"""Configuration of an AffineResNet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from equigeo._core.config import Config, within
from equigeo.affine.kernels import KernelSpec, NetworkName, WindowName
from equigeo.groups import SL, SO, GLPlus, LinearGroup

_GROUPS: dict[str, type[LinearGroup]] = {"SO": SO, "SL": SL, "GLPlus": GLPlus}


@dataclass(frozen=True)
class SamplesConfig(Config):
    """Options of the group samples of a network.

    Parameters
    ----------
    group : {"SO", "SL", "GLPlus"}
        Group of the samples, in two dimensions.
    count : int
        Number of samples: equidistant rotations for SO(2), else pairs of a log-normal stretch and
        an equidistant rotation.
    stretch_std : float
        Standard deviation of the coordinates of stretches.
    """

    title: ClassVar[str] = "the configuration of samples"

    group: Literal["SO", "SL", "GLPlus"] = "SO"
    count: int = within(1, 1024, default=12)
    # sqrt(0.1) / 2: published samples S have log-coordinates of variance 0.1; stretches, S^(1/2).
    stretch_std: float = within(0.0, 100.0, default=0.158)

    def make_group(self) -> LinearGroup:
        """Return the group of the samples."""
        return _GROUPS[self.group](2)


@dataclass(frozen=True)
class FrameConfig(Config):
    """Options of the image frame.

    Parameters
    ----------
    use : bool
        Transform images to their frame first. Samples of SO(2) then suffice.
    size, extent, smoothing, residual : int, float, float, bool
        See :class:`MomentFrame`.
    """

    title: ClassVar[str] = "the configuration of the frame"

    use: bool = True
    size: int = within(1, 1024, default=32)
    extent: float = within(0.0, 1e3, above=True, default=2.4)
    smoothing: float = within(0.0, 100.0, default=0.25)
    residual: bool = True


@dataclass(frozen=True)
class LiftConfig(Config):
    """Options of the lifting convolution.

    Parameters
    ----------
    size, stride, padding : int
        In pixels. Quarter turns are exact only if the stride divides image size + 2 padding - size.
    centers : int
        Gaussians along an axis of ``rbf`` kernels.
    """

    title: ClassVar[str] = "the configuration of the lifting"

    size: int = within(1, 255, default=8)
    stride: int = within(1, 255, default=2)
    padding: int = within(0, 255, default=3)
    centers: int = within(1, 256, default=5)


@dataclass(frozen=True)
class ConvolutionsConfig(Config):
    """Options of all convolutions, and of the layers between them.

    Parameters
    ----------
    separable : bool
        Use separable convolutions with dense spatial kernels.
    network, window, extent, stretch_reach : str, str, float, float
        See :class:`KernelSpec`.
    centers : int
        Gaussians along an axis of ``rbf`` kernels, except those of the lifting.
    norm : {"batch", "layer"}
        Normalization after each convolution; ``batch`` requires samples of SO(2), since those of
        larger groups are drawn for each batch.
    rim : float
        Share of the radius over which features decrease to zero before each convolution, so that
        they fill a disc; 0 keeps the square.
    """

    title: ClassVar[str] = "the configuration of the convolutions"

    separable: bool = True
    network: NetworkName = "rbf"
    centers: int = within(1, 256, default=4)
    window: WindowName = "compact"
    extent: float = within(0.0, 1e3, above=True, default=0.87)
    stretch_reach: float = within(0.0, 1e3, above=True, default=1.0)
    norm: Literal["batch", "layer"] = "batch"
    rim: float = within(0.0, 1.0, default=0.6)

    def kernel_spec(self, size: int, centers: int, group_centers: int) -> KernelSpec:
        """Return a :class:`KernelSpec` with the network and window of this configuration."""
        return KernelSpec(
            size,
            network=self.network,
            window=self.window,
            extent=self.extent,
            stretch_reach=self.stretch_reach,
            centers=centers,
            group_centers=group_centers,
        )


@dataclass(frozen=True)
class StagesConfig(Config):
    """Options of the residual stages between the lifting and the last convolution.

    Parameters
    ----------
    channels : tuple of int
        Channels of each stage.
    pool : tuple of bool
        Whether to downsample by two after each stage.
    pooling : {"binomial", "max"}
        Weights (1, 3, 3, 1) / 8 along each axis, or maxima of 2 x 2 pixels.
    blocks, convs : int
        Residual blocks per stage and convolutions per block.
    size : int
        Pixels along each axis of the kernels; odd, to keep the resolution.
    """

    title: ClassVar[str] = "the configuration of the stages"

    channels: tuple[int, ...] = within(1, 65_536, default=(16, 16))
    pool: tuple[bool, ...] = (True, False)
    pooling: Literal["binomial", "max"] = "binomial"
    blocks: int = within(0, 256, default=1)
    convs: int = within(0, 256, default=1)
    size: int = within(1, 255, default=5)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.channels:
            raise ValueError("the number of stages must be positive, got channels ()")
        if len(self.channels) != len(self.pool):
            raise ValueError(
                f"channels and pool must be equally long, got {self.channels} and {self.pool}"
            )
        if self.size % 2 == 0:
            raise ValueError(f"size must be odd, got {self.size}")


@dataclass(frozen=True)
class HeadConfig(Config):
    """Options of the last convolution and of the head that computes logits.

    Parameters
    ----------
    features, size : int
        Channels of the last convolution, and pixels along each axis of its kernels.
    kind : {"orientation", "max"}
        Logits at the orientation that an attention selects; or a maximum over group and space, then
        a perceptron.
    window : float
        Half-width in degrees, from the upright, of the orientations that count. 180 or more
        disables it; less distinguishes 6 from 9, and is not invariant.
    prior : int
        Frequencies of a trainable prior over orientations, initially zero.
    prior_noise : float
        Largest error, in degrees, of the angles that the prior reads in training: the smallest
        range of rotations that it can learn to distinguish.
    rotations : int
        Equidistant rotations of a full turn at which the orientation head evaluates the last
        convolution; those far from the window are omitted.
    dropout : float
        Dropout probability before the classifier.
    """

    title: ClassVar[str] = "the configuration of the head"

    features: int = within(1, 65_536, default=48)
    size: int = within(1, 255, default=8)
    kind: Literal["orientation", "max"] = "orientation"
    window: float = within(0.0, 360.0, above=True, default=180.0)
    prior: int = within(0, 64, default=4)
    prior_noise: float = within(0.0, 180.0, default=45.0)
    rotations: int = within(1, 4096, default=12)
    dropout: float = within(0.0, 1.0, default=0.3)


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
        Channels of the images: 1 for brightness, 3 for colors.

    Examples
    --------
    >>> config = AffineResNetConfig(10, stages=StagesConfig(channels=(8,), pool=(True,)))
    >>> AffineResNetConfig.from_dict(config.to_dict()) == config
    True
    """

    title: ClassVar[str] = "the configuration of an AffineResNet"

    num_classes: int = within(1, 10**6)
    samples: SamplesConfig = field(default_factory=SamplesConfig)
    frame: FrameConfig = field(default_factory=FrameConfig)
    lift: LiftConfig = field(default_factory=LiftConfig)
    convolutions: ConvolutionsConfig = field(default_factory=ConvolutionsConfig)
    stages: StagesConfig = field(default_factory=StagesConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    in_channels: int = within(1, 2**16, default=1)

    def __post_init__(self) -> None:
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
