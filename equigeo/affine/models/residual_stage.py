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
    """Group convolutions, each with norm and GELU, added to their input.

    Parameters
    ----------
    convs : sequence of GroupConvolution
        Each takes and gives equally many channels and pixels.
    norm : {"batch", "layer"}
        Normalisation after each.

    Equivariance
    ------------
    That of the convolutions; input and result live on the same samples, or they could not be added.

    Examples
    --------
    >>> import torch
    >>> from equigeo.affine import GroupConv
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> block = GroupResidual([GroupConv(SO(2), 4, 4, padding=2)], "layer")
    >>> block(torch.rand(1, 4, 8, 9, 9), equidistant_rotations(8)).shape
    torch.Size([1, 4, 8, 9, 9])
    """

    def __init__(self, convs: Sequence[GroupConvolution], norm: Literal["batch", "layer"]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.norms = nn.ModuleList(sample_norm(norm, conv.out_channels) for conv in convs)

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        """Convolve and add.

        Parameters
        ----------
        x : Tensor, (B, C, N, *S), floating
            Features.
        samples : GroupSamples
            The ``N`` samples that they live on.

        Returns
        -------
        Tensor, (B, C, N, *S), dtype of ``x``
            Features on the same samples.
        """
        y = x
        for conv, norm in zip(self.convs, self.norms, strict=True):
            y = F.gelu(norm(conv(y, samples)[0]))
        return x + y


class ResidualStage(nn.Module):
    """Residual blocks, after a convolution where the number of channels changes.

    Parameters
    ----------
    config : AffineResNetConfig
        Convolutions, blocks and kernel size.
    channels, width : int
        Channels before and after.

    Equivariance
    ------------
    That of its convolutions.
    """

    def __init__(self, config: AffineResNetConfig, channels: int, width: int) -> None:
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
        """Convolve; shapes as of :class:`GroupResidual`, with ``width`` channels in the end."""
        if self.widen is not None and self.widen_norm is not None:
            x = F.gelu(self.widen_norm(self.widen(x, samples)[0]))
        for block in self.blocks:
            x = block(x, samples)
        return x


def make_group_conv(
    config: AffineResNetConfig, channels: int, width: int, size: int, padding: int
) -> GroupConvolution:
    """Make a group convolution of a network, without bias: a norm follows.

    Parameters
    ----------
    config : AffineResNetConfig
        Group, kernels and whether they are separable.
    channels, width : int
        Channels before and after.
    size, padding : int
        Of its kernels, in pixels.

    Returns
    -------
    GroupConvolution
        With new parameters.
    """
    convolutions, samples = config.convolutions, config.samples
    spec = convolutions.kernel_spec(size, convolutions.centers, samples.count)
    group = samples.make_group()
    if convolutions.separable:
        return SeparableGroupConv(
            group, channels, width, spec, spatial="dense", padding=padding, bias=False
        )
    return GroupConv(group, channels, width, spec, padding=padding, bias=False)
