"""Dense group convolution."""

from __future__ import annotations

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
class GroupConv(GroupConvolution):
    r"""Convolution over space and group with a joint kernel.

    .. math:: (F \star k)(x, h) = \int_H \int F(\tilde x, \tilde h)\,
              k(h^{-1}(\tilde x - x), h^{-1}\tilde h)\, |\det \tilde h|^{-1}
              \, d\tilde x\, d\mu_H(\tilde h)

    Equivariant as :class:`LiftConv`, up to the quadrature over the group. Emits
    :class:`WindowWarning` if the inputs do not cover the window of the outputs plus the reach of
    the kernel. Reference: Mironenco and Forré, "Lie Group Decompositions for Equivariant Neural
    Networks", ICLR 2024.

    Parameters
    ----------
    group : LinearGroup
        The group ``H`` of linear parts, in 2 or 3 dimensions.
    in_channels, out_channels : int
        Scalar channels on the group.
    spec : KernelSpec, optional
        Size, network and window of the kernel.
    padding, padding_mode : int, {"zeros", "circular"}
        Cells added on every side, and their values.
    quadrature : Quadrature, optional
        Weights of the samples, and how many outputs are computed at a time.
    bias : bool
        Add a number to each channel.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> layer = GroupConv(SO(2), 4, 6, KernelSpec(5), padding=2)
    >>> features, samples = layer(torch.rand(2, 4, 8, 9, 9), equidistant_rotations(8))
    >>> features.shape
    torch.Size([2, 6, 8, 9, 9])
    """

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, padding: int = 0, padding_mode: PaddingMode = "zeros",
        quadrature: Quadrature | None = None, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            group, in_channels, out_channels, spec, padding, padding_mode, quadrature, bias
        )
        fan_in = in_channels * self.spec.size**group.n
        self.kernel: nn.Module = AffineKernel(
            group, in_channels * out_channels, self.spec, fan_in=fan_in
        )

    def evaluate_kernel(self, inputs: GroupSamples, outputs: GroupSamples) -> Tensor:
        """Return the kernel ``(out_channels, N_out, in_channels, N, *k)`` on the pixel grid.

        It includes weights and determinants of the inputs.
        """
        n, size = self.group.n, self.spec.size
        grid = self.spec.grid(n).to(outputs.h)
        u = relative_points(outputs, grid)[:, None]
        s = relative_coordinates(outputs, inputs)[:, :, None]
        shape = (len(outputs), len(inputs), len(grid))
        values = self.kernel(u.expand(*shape, -1), s.expand(*shape, -1))
        # The measure of the sum contains the determinants of the inputs, not of the outputs.
        weight = self.quadrature.weights(inputs).to(values)
        values = values * (weight * self.spec.pixel_volume(n))[:, None, None]
        values = values.unflatten(-1, (self.out_channels, self.in_channels))
        return values.permute(3, 0, 4, 1, 2).unflatten(-1, (size,) * n)

    def convolve(self, packed: Tensor, inputs: GroupSamples, outputs: GroupSamples) -> Tensor:
        """Convolve packed features with the dense kernel."""
        # (C_out, N_out, C_in, N_in, *k) to (N_out C_out, N_in C_in, *k), as features are packed.
        kernel = self.evaluate_kernel(inputs, outputs)
        kernel = kernel.transpose(0, 1).transpose(2, 3).flatten(2, 3).flatten(0, 1)
        return convolve(packed, kernel, padding=self.padding, padding_mode=self.padding_mode)
