"""Residual stages of group convolutions on one set of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from equigeo.affine.images.convolution_base import GroupConvolution
from equigeo.affine.images.group_conv import GroupConv
from equigeo.affine.images.separable_group_conv import SeparableGroupConv
from equigeo.affine.models.affine_resnet_config import AffineResNetConfig
from equigeo.affine.samples.sample_norm import sample_norm
from equigeo.groups import GroupSamples


class GroupResidual(nn.Module):
    """Residual block of group convolutions, each followed by a norm and GELU."""

    def __init__(
        self,
        convs: Sequence[GroupConvolution],  # each preserves channels and pixels
        norm: Literal["batch", "layer"],
    ) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.norms = nn.ModuleList(sample_norm(norm, conv.out_channels) for conv in convs)

    def forward(
        self,
        x: Tensor,  # (B, C, N, *S)
        samples: GroupSamples,
    ) -> Tensor:  # (B, C, N, *S)
        """Convolve and add the input; the samples do not change."""
        y = x
        for conv, norm in zip(self.convs, self.norms, strict=True):
            y = F.gelu(norm(conv(y, samples)[0]))
        return x + y


class ResidualStage(nn.Module):
    """Residual blocks, after a convolution if the number of channels changes."""

    def __init__(
        self,
        config: AffineResNetConfig,
        channels: int,  # channels of the input
        width: int,  # channels of the output
    ) -> None:
        super().__init__()
        stages, norm = config.stages, config.convolutions.norm
        padding = stages.size // 2  # keeps the resolution, as the size is odd
        self.widen, self.widen_norm = None, None
        if channels != width:
            self.widen = make_group_conv(config, channels, width, stages.size, padding)
            self.widen_norm = sample_norm(norm, width)
        self.blocks = nn.ModuleList()
        for _ in range(stages.blocks):
            convs = [
                make_group_conv(config, width, width, stages.size, padding)
                for _ in range(stages.convs)
            ]
            self.blocks.append(GroupResidual(convs, norm))

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        """Convolve; shapes as of :class:`GroupResidual`, with ``width`` output channels."""
        if self.widen is not None and self.widen_norm is not None:
            x = F.gelu(self.widen_norm(self.widen(x, samples)[0]))
        for block in self.blocks:
            x = block(x, samples)
        return x


def make_group_conv(
    config: AffineResNetConfig,
    channels: int,  # channels of the input
    width: int,  # channels of the output
    size: int,  # kernel size in pixels
    padding: int,
) -> GroupConvolution:
    """Build a group convolution of a network, without bias since a norm follows."""
    convolutions, samples = config.convolutions, config.samples
    spec = convolutions.kernel_spec(size, convolutions.centers, samples.count)
    group = samples.make_group()
    if convolutions.separable:
        return SeparableGroupConv(
            group, channels, width, spec, spatial="dense", padding=padding, bias=False
        )
    return GroupConv(group, channels, width, spec, padding=padding, bias=False)
