"""Image classifier that is invariant to affine maps of its images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo.affine.images.convolution_base import GroupConvolution
from equigeo.affine.images.group_conv import GroupConv
from equigeo.affine.images.lift_conv import LiftConv
from equigeo.affine.images.moment_frame import MomentFrame
from equigeo.affine.images.separable_group_conv import SeparableGroupConv
from equigeo.affine.kernels.kernel_spec import KernelSpec
from equigeo.affine.models.affine_resnet_config import AffineResNetConfig
from equigeo.affine.models.disc_taper import fade
from equigeo.affine.models.downsample import halve
from equigeo.affine.models.heads import MaxHead, OrientationHead
from equigeo.affine.models.residual_stage import ResidualBlock
from equigeo.affine.models.sample_sets import draw_samples, output_samples
from equigeo.affine.samples.sample_norm import sample_norm
from equigeo.groups import GroupSamples


class AffineResNet(nn.Module):
    """Lifting, residual stages of group convolutions, one last convolution and a head.

    The default preset sees an image from its moment frame, which removes translation, scale and
    stretch, and convolves over SO(2) and space around the centre. The paper preset draws ten
    elements of SL(2) or GL+(2) and convolves over space and group: in training with fresh draws,
    in use with fixed ones.

    Parameters
    ----------
    config : AffineResNetConfig
        What it is made of.

    Equivariance
    ------------
    Logits are invariant to affine maps of the image up to interpolation, sampling and, in the
    default preset, rotations beyond the orientation window; the measured change of the logits of
    each preset stands in ``bench/results/affnist_*.json``.

    References
    ----------
    Mironenko and Forré, "Lie Group Decompositions for Equivariant Neural Networks", ICLR 2024.

    Examples
    --------
    >>> import torch
    >>> model = AffineResNet.preset("default", num_classes=10).eval()
    >>> model(torch.rand(2, 1, 40, 40)).shape
    torch.Size([2, 10])
    """

    def __init__(self, config: AffineResNetConfig) -> None:
        super().__init__()
        self.settings = config
        self.group = config.make_group()
        self.frame = None
        if config.frame:
            self.frame = MomentFrame(config.frame_size, config.frame_extent, config.blur)
        first = config.channels[0]
        self.lift = LiftConv(
            self.group,
            1,
            first,
            _spec(config, config.lift_size, config.lift_centers),
            stride=config.lift_stride,
            padding=config.lift_padding,
        )
        self.lift_norm = sample_norm(config.norm, first)
        self.stages = nn.ModuleList()
        for before, width in zip((first, *config.channels), config.channels, strict=False):
            self.stages.append(_Stage(config, before, width))
        self.pool_norms = nn.ModuleList(sample_norm(config.norm, c) for c in config.channels)
        self.last = _conv(config, config.channels[-1], config.features, config.last_size, 0)
        self.last_norm = sample_norm(config.norm, config.features)
        self.head = _make_head(config)
        fixed = torch.Generator().manual_seed(0)
        first_samples, last_samples = draw_samples(config, fixed), draw_samples(config, fixed)
        if config.head == "orientation":
            last_samples = output_samples(config)
        self._fixed = (first_samples, last_samples)

    @classmethod
    def preset(cls, name: str, num_classes: int = 10) -> AffineResNet:
        """Build a preset.

        Parameters
        ----------
        name : {"default", "paper"}
            The library's own network, or the published one over SL(2).
        num_classes : int
            Number of logits.

        Raises
        ------
        ValueError
            If the name is unknown.
        """
        if name == "default":
            return cls(AffineResNetConfig(num_classes))
        if name == "paper":
            return cls(AffineResNetConfig.paper(num_classes))
        raise ValueError(f"preset must be 'default' or 'paper', got {name!r}")

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> AffineResNet:
        """Build from what :attr:`config` returned.

        Parameters
        ----------
        config : dict of JSON types
            Settings; those that are missing take the default preset's value.

        Raises
        ------
        ValueError
            If a setting is unknown or missing.
        """
        return cls(AffineResNetConfig.from_dict(config))

    @property
    def config(self) -> dict[str, Any]:
        """Settings, of JSON types."""
        return self.settings.to_dict()

    def forward(self, images: Tensor) -> Tensor:
        """Classify images.

        Parameters
        ----------
        images : Tensor, (B, 1, H, W), floating
            Brightness between 0, the background, and 1.

        Returns
        -------
        Tensor, (B, num_classes), floating
            Logits.

        Raises
        ------
        ValueError
            If the shape does not fit.
        """
        first, last = self._samples(images)
        rim = self.settings.rim
        x = images if self.frame is None else fade(self.frame(images), rim)
        x = fade(F.gelu(self.lift_norm(self.lift(x, first)[0])), rim)
        for stage, norm, pool in zip(self.stages, self.pool_norms, self.settings.pool, strict=True):
            x = fade(stage(x, first), rim)
            if pool:
                x = fade(F.gelu(halve(norm(x), self.settings.pooling)), rim)
        x, outputs = self.last(x, first, last)
        return self.head(F.gelu(self.last_norm(x)), outputs)

    def _samples(self, like: Tensor) -> tuple[GroupSamples, GroupSamples]:
        """Samples of all features but the last, and of the last."""
        config = self.settings
        first, last = self._fixed
        if self.training and config.group != "SO":
            first, last = draw_samples(config), draw_samples(config)
        return first.to(device=like.device), last.to(device=like.device)


class _Stage(nn.Module):
    """Residual blocks, after a convolution where the number of channels changes."""

    def __init__(self, config: AffineResNetConfig, channels: int, width: int) -> None:
        super().__init__()
        padding = config.size // 2
        self.widen, self.widen_norm = None, None
        if channels != width:
            self.widen = _conv(config, channels, width, config.size, padding)
            self.widen_norm = sample_norm(config.norm, width)
        self.blocks = nn.ModuleList(
            ResidualBlock(
                [
                    _conv(config, width, width, config.size, padding)
                    for _ in range(config.block_convs)
                ],
                config.norm,
            )
            for _ in range(config.blocks)
        )

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        if self.widen is not None and self.widen_norm is not None:
            x = F.gelu(self.widen_norm(self.widen(x, samples)[0]))
        for block in self.blocks:
            x = block(x, samples)
        return x


def _spec(config: AffineResNetConfig, size: int, centers: int) -> KernelSpec:
    return KernelSpec(
        size,
        network=config.network,
        window=config.window,
        extent=config.extent,
        stretch_reach=config.stretch_reach,
        centers=centers,
        group_centers=config.samples,
    )


def _conv(
    config: AffineResNetConfig, channels: int, width: int, size: int, padding: int
) -> GroupConvolution:
    spec, group = _spec(config, size, config.centers), config.make_group()
    if config.separable:
        return SeparableGroupConv(
            group, channels, width, spec, spatial="dense", padding=padding, bias=False
        )
    return GroupConv(group, channels, width, spec, padding=padding, bias=False)


def _make_head(config: AffineResNetConfig) -> nn.Module:
    if config.head == "max":
        return MaxHead(config.features, config.num_classes, config.dropout)
    return OrientationHead(
        config.features, config.num_classes, config.orientation_window, config.dropout
    )
