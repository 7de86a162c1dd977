"""Group convolution with a product kernel."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.affine.images.convolution_base import GroupConvolution
from equigeo.affine.images.convolve import PaddingMode, convolve
from equigeo.affine.kernels.affine_kernel import AffineKernel
from equigeo.affine.kernels.kernel_spec import KernelSpec
from equigeo.affine.kernels.relative_coordinates import relative_coordinates, relative_points
from equigeo.affine.samples.quadrature import Quadrature
from equigeo.groups import GroupSamples, LinearGroup


@takes_integers
class SeparableGroupConv(GroupConvolution):
    r"""Convolution with :math:`k(u, s) = k_X(u)\, k_H(s)`: first over the group, then over space.

    Compared with :class:`GroupConv`, the cost falls by about the number of pixels of the kernel or
    the number of samples, whichever is smaller.

    Reference: Knigge et al., "Exploiting Redundancy: Separable Group Convolutional Networks on Lie
    Groups", ICML 2022.

    Other arguments: see :class:`GroupConv`.

    Parameters
    ----------
    spatial : {"depthwise", "dense"}
        One spatial kernel per channel, or one per pair of channels. On CPUs the latter is as fast
        for up to about 16 channels.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> layer = SeparableGroupConv(SO(2), 4, 6, KernelSpec(5), padding=2)
    >>> layer(torch.rand(2, 4, 8, 9, 9), equidistant_rotations(8))[0].shape
    torch.Size([2, 6, 8, 9, 9])
    """

    def __init__(  # noqa: PLR0913 -- those of GroupConv, and which spatial part
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, spatial: Literal["depthwise", "dense"] = "depthwise",
        padding: int = 0, padding_mode: PaddingMode = "zeros",
        quadrature: Quadrature | None = None, bias: bool = True,
    ) -> None:  # fmt: skip
        if spatial not in ("depthwise", "dense"):
            raise ValueError(f"spatial must be 'depthwise' or 'dense', got {spatial!r}")
        super().__init__(
            group, in_channels, out_channels, spec, padding, padding_mode, quadrature, bias
        )
        self.spatial = spatial
        width = out_channels if spatial == "dense" else 1
        self.group_kernel: nn.Module = AffineKernel(
            group, out_channels * in_channels, self.spec, spatial=False, fan_in=in_channels
        )
        fan_in = width * self.spec.size**group.n
        self.spatial_kernel: nn.Module = AffineKernel(
            group, out_channels * width, self.spec, grouped=False, fan_in=fan_in
        )

    def evaluate_group_kernel(self, inputs: GroupSamples, outputs: GroupSamples) -> Tensor:
        """Return the kernel ``(out_channels, N_out, in_channels, N)`` on the group.

        It includes weights and determinants of the inputs.
        """
        values = self.group_kernel(s=relative_coordinates(outputs, inputs))
        weight = self.quadrature.weights(inputs).to(values)
        values = (values * weight[:, None]).unflatten(-1, (self.out_channels, self.in_channels))
        return values.permute(2, 0, 3, 1)

    def evaluate_spatial_kernel(self, outputs: GroupSamples) -> Tensor:
        """Return the kernel on space times the pixel volume.

        Shape ``(N_out, out_channels, 1 or out_channels, *k)``.
        """
        n, size = self.group.n, self.spec.size
        grid = self.spec.grid(n).to(outputs.h)
        values = self.spatial_kernel(relative_points(outputs, grid)) * self.spec.pixel_volume(n)
        values = values.unflatten(-1, (self.out_channels, -1))
        return values.permute(0, 2, 3, 1).unflatten(-1, (size,) * n)

    def convolve(self, packed: Tensor, inputs: GroupSamples, outputs: GroupSamples) -> Tensor:
        """Convolve packed features over the group, then over space."""
        n, count = self.group.n, len(outputs)
        # Group part: mix samples and channels at each pixel, by a convolution of size 1.
        mixing = self.evaluate_group_kernel(inputs, outputs).permute(1, 0, 3, 2)
        mixing = mixing.flatten(2).flatten(0, 1)
        mixed = convolve(packed, mixing.view(*mixing.shape, *[1] * n))
        # Spatial part: one convolution group per sample, or per sample and channel.
        return convolve(
            mixed,
            self.evaluate_spatial_kernel(outputs).flatten(0, 1),
            padding=self.padding,
            padding_mode=self.padding_mode,
            groups=count if self.spatial == "dense" else count * self.out_channels,
        )
