"""Group convolution with a product kernel: a function on space times one on the group."""

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

    The group part mixes channels and samples at every pixel; the spatial part then convolves the
    features at each output sample with a kernel moved to it. It costs about as many times less
    than :class:`equigeo.affine.GroupConv` as the kernel has pixels or the group has samples.

    Parameters
    ----------
    group : LinearGroup
        The group ``H`` of linear parts, in 2 or 3 dimensions.
    in_channels, out_channels : int
        Scalar channels on the group.
    spec : KernelSpec, optional
        Size, network and window, of both parts.
    spatial : {"depthwise", "dense"}
        Whether the spatial part has one kernel per channel, or mixes channels again: on CPUs the
        second takes no longer up to about sixteen channels.
    padding, padding_mode, quadrature, bias
        As of :class:`equigeo.affine.GroupConv`.

    Equivariance
    ------------
    That of :class:`equigeo.affine.GroupConv` with the product kernel.

    References
    ----------
    Knigge et al., "Exploiting Redundancy: Separable Group Convolutional Networks on Lie Groups",
    ICML 2022.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> layer = SeparableGroupConv(SO(2), 4, 6, KernelSpec(5), padding=2)
    >>> features, samples = layer(torch.rand(2, 4, 8, 9, 9), equidistant_rotations(8))
    >>> features.shape
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
        """Return the kernel on the group, with weights and determinants of the inputs.

        Parameters
        ----------
        inputs, outputs : GroupSamples
            Samples of the two sides.

        Returns
        -------
        Tensor, (out_channels, N_out, in_channels, N), floating
            A matrix that acts on every pixel.
        """
        values = self.group_kernel(s=relative_coordinates(outputs, inputs))
        weight = self.quadrature.weights(inputs).to(values)
        values = (values * weight[:, None]).unflatten(-1, (self.out_channels, self.in_channels))
        return values.permute(2, 0, 3, 1)

    def evaluate_spatial_kernel(self, outputs: GroupSamples) -> Tensor:
        """Return the kernel on space, times the pixel volume.

        Parameters
        ----------
        outputs : GroupSamples
            Samples of the result.

        Returns
        -------
        Tensor, (N_out, out_channels, 1 or out_channels, *k), floating
            The weights of an ordinary convolution at each sample.
        """
        n, size = self.group.n, self.spec.size
        grid = self.spec.grid(n).to(outputs.h)
        values = self.spatial_kernel(relative_points(outputs, grid)) * self.spec.pixel_volume(n)
        values = values.unflatten(-1, (self.out_channels, -1))
        return values.permute(0, 2, 3, 1).unflatten(-1, (size,) * n)

    def convolve(self, packed: Tensor, inputs: GroupSamples, outputs: GroupSamples) -> Tensor:
        """Convolve packed features over group, then space; see :class:`GroupConvolution`."""
        n, count = self.group.n, len(outputs)
        # First samples and channels, one pixel at a time: a convolution of size 1.
        mixing = self.evaluate_group_kernel(inputs, outputs).permute(1, 0, 3, 2)
        mixing = mixing.flatten(2).flatten(0, 1)
        mixed = convolve(packed, mixing.view(*mixing.shape, *[1] * n))
        # Then space, one sample at a time: groups of all its channels, or of each alone.
        return convolve(
            mixed,
            self.evaluate_spatial_kernel(outputs).flatten(0, 1),
            padding=self.padding,
            padding_mode=self.padding_mode,
            groups=count if self.spatial == "dense" else count * self.out_channels,
        )
