"""What an AffineResNet is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from equigeo.affine.kernels.kernel_spec import NetworkName, WindowName
from equigeo.affine.models.network_config import NetworkConfig
from equigeo.groups import SL, SO, GLPlus, LinearGroup

_GROUPS: dict[str, type[LinearGroup]] = {"SO": SO, "SL": SL, "GLPlus": GLPlus}


@dataclass(frozen=True)
class AffineResNetConfig(NetworkConfig):
    """Settings of :class:`equigeo.affine.AffineResNet`, all of JSON types.

    The defaults are the library's own network: images are seen from their affine frame, rotations
    are sampled equidistantly. :meth:`paper` is the published network.

    Parameters
    ----------
    num_classes : int
        Number of logits.
    group : {"SO", "SL", "GLPlus"}
        Group of the samples, in two dimensions.
    frame : bool
        See images from their moment frame first. Then the samples need only be of SO(2).
    frame_size : int
        Pixels of each side of what the frame shows.
    frame_extent : float
        Half its side, in standard deviations of the brightness.
    blur : float
        Smoothing of the image in pixels, see :class:`equigeo.affine.MomentFrame`.
    rim : float
        Share of the radius of the frame over which features fall to zero before each convolution,
        so that they end in a circle instead of a square; 0 keeps the square.
    samples : int
        Number of group samples. Of SO(2), equidistant; of larger groups, pairs of a log-normal
        stretch and an equidistant rotation.
    stretch_std : float
        Standard deviation of the coordinates of stretches.
    channels : tuple of int
        Channels of each stage; the first stage follows the lifting.
    pool : tuple of bool
        After which stages to halve the resolution.
    pooling : {"binomial", "max"}
        How, see :func:`equigeo.affine.models.downsample.halve`.
    blocks, block_convs : int
        Residual blocks of a stage and convolutions of a block.
    features : int
        Channels of the last convolution, which covers its whole input where ``last_size`` says so.
    lift_size, lift_stride, lift_padding, size, last_size : int
        Kernel sizes in pixels, of the lifting, the blocks and the last convolution.
    separable : bool
        Separable convolutions, with dense spatial kernels, or full ones.
    network : {"rbf", "siren", "gabor"}
        What makes kernels.
    lift_centers, centers : int
        Gaussians along an axis of ``rbf`` kernels of the lifting, and of the others.
    window : {"compact", "disc", "sigmoid", "none"}
        Window of the kernels.
    extent, stretch_reach : float
        Half the side of kernels and their reach in log-stretch.
    norm : {"batch", "layer"}
        Normalisation after each convolution.
    head : {"orientation", "max"}
        Logits at the orientation that an attention within a window finds; or a maximum over group
        and space, then a perceptron.
    orientation_window : float
        Half-width in degrees within which orientations count; 180 or more counts all alike, which
        is invariant and cannot tell 6 from 9.
    output_rotations : int
        Equidistant rotations of a full turn at which the last convolution is evaluated, of which
        those near the window are kept.
    dropout : float
        Share of features set to zero before the classifier.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> AffineResNetConfig.from_dict(AffineResNetConfig(10).to_dict()) == AffineResNetConfig(10)
    True
    """

    group: Literal["SO", "SL", "GLPlus"] = "SO"
    frame: bool = True
    frame_size: int = 32
    frame_extent: float = 2.7
    blur: float = 0.7
    rim: float = 0.35
    samples: int = 12
    stretch_std: float = 0.158
    channels: tuple[int, ...] = (16, 16)
    pool: tuple[bool, ...] = (True, False)
    pooling: Literal["binomial", "max"] = "binomial"
    blocks: int = 1
    block_convs: int = 1
    features: int = 48
    lift_size: int = 8
    lift_stride: int = 2
    lift_padding: int = 3
    size: int = 5
    last_size: int = 8
    separable: bool = True
    network: NetworkName = "rbf"
    lift_centers: int = 5
    centers: int = 4
    window: WindowName = "compact"
    extent: float = 0.87
    stretch_reach: float = 1.0
    norm: Literal["batch", "layer"] = "batch"
    head: Literal["orientation", "max"] = "orientation"
    orientation_window: float = 60.0
    output_rotations: int = 24
    dropout: float = 0.3

    def __post_init__(self) -> None:
        """Check what would otherwise fail late or silently."""
        if self.num_classes < 1 or self.samples < 1 or not self.channels:
            raise ValueError("num_classes, samples and channels must be positive")
        if len(self.channels) != len(self.pool):
            raise ValueError(
                f"channels and pool must be equally long, got {self.channels} and {self.pool}"
            )
        if self.group not in _GROUPS:
            raise ValueError(f"group must be one of {', '.join(_GROUPS)}, got {self.group!r}")
        if self.head == "orientation" and self.group != "SO":
            raise ValueError("the orientation head needs samples of SO(2)")
        if not 0 <= self.rim <= 1:
            raise ValueError(f"rim must be between 0 and 1, got {self.rim}")
        if self.size % 2 == 0:
            raise ValueError(f"size must be odd, got {self.size}")

    @classmethod
    def paper(cls, num_classes: int = 10, group: str = "SL") -> AffineResNetConfig:
        """Settings of the published network, its samples corrected.

        Parameters
        ----------
        num_classes : int
            Number of logits.
        group : {"SL", "GLPlus"}
            Group of the samples.

        Returns
        -------
        AffineResNetConfig
            With 339,102 parameters for SL(2) and 339,282 for GL+(2) and ten classes.
        """
        settings: dict[str, Any] = {
            "group": group, "frame": False, "blur": 0.0, "rim": 0.0, "samples": 10,
            "channels": (40,), "pool": (True,), "pooling": "max", "block_convs": 2, "features": 40,
            "lift_size": 5, "lift_stride": 1, "lift_padding": 0, "last_size": 5, "separable": False,
            "network": "siren", "window": "disc" if group == "SL" else "sigmoid", "extent": 1.0,
            "norm": "layer", "head": "max",
        }  # fmt: skip
        return cls(num_classes, **settings)

    def make_group(self) -> LinearGroup:
        """Return the group of the samples."""
        return _GROUPS[self.group](2)
