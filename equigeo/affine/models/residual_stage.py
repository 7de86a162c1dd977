"""Residual block of group convolutions on one set of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from equigeo.affine.images.convolution_base import GroupConvolution
from equigeo.affine.samples.sample_norm import sample_norm
from equigeo.groups import GroupSamples


class ResidualBlock(nn.Module):
    """Convolutions, each with norm and GELU, added to their input.

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
    >>> block = ResidualBlock([GroupConv(SO(2), 4, 4, padding=2)], "layer")
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
