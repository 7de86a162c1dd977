"""Convolutions from space to a group, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from equigeo._core.checks import takes_integers
from equigeo.affine.convolve import (
    PaddingMode,
    check_features,
    check_options,
    convolve,
    pack,
    unpack,
)
from equigeo.affine.kernels import AffineKernel, KernelSpec
from equigeo.affine.samples import Quadrature, check_group
from equigeo.affine.steering import field_representation, read_field, relative_points, write_field
from equigeo.groups import GroupSamples, LinearGroup
from equigeo.nn.state import SavedOptions
from equigeo.reps import Representation, Trivial


@takes_integers
class LiftConv(SavedOptions):
    r"""Lifting convolution of images or volumes.

    .. math:: (f \star k)(x, h) = |\det h|^{-1} \int k(h^{-1}(\tilde x - x))\, \rho(h)^{-1}
              f(\tilde x)\, d\tilde x

    The input ``rho(A) f(A^-1 (x - b))`` gives ``F(A^-1 (x - b), A^-1 h)`` for ``(b, A)`` in the
    affine group, up to the pixel grid. It is exact for shifts by multiples of the stride, and for
    symmetries of the grid that permute the samples if the stride divides size + 2 padding - kernel
    size. Reference: Mironenco and Forré, "Lie Group Decompositions for Equivariant Neural
    Networks", ICLR 2024.

    Other arguments: see :class:`GroupConv`.

    Parameters
    ----------
    in_channels, out_channels : int
        Fields on space, and scalar channels on the group.
    stride : int
        As in ``torch.nn.Conv2d``.
    measure : bool
        Treat values as a density that is pushed forward: no determinant.
    rep_in : Representation, optional
        Representation of the values, such as ``TensorRep(GLPlus(2))`` for velocities (default:
        scalars).

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> from equigeo.reps import TensorRep
    >>> layer = LiftConv(SO(2), 1, 6, KernelSpec(5), padding=2, rep_in=TensorRep(SO(2)))
    >>> layer(torch.rand(2, 2, 9, 9), equidistant_rotations(8))[0].shape  # of a vector field
    torch.Size([2, 6, 8, 9, 9])
    """

    def __init__(  # noqa: PLR0913 - most by name
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, padding: int = 0, padding_mode: PaddingMode = "zeros",
        stride: int = 1, measure: bool = False, rep_in: Representation | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        check_options((in_channels, out_channels), padding, padding_mode, stride)
        self.group, self.in_channels, self.out_channels = group, in_channels, out_channels
        self.rep_in = field_representation(rep_in, group)
        self.rep_out = Trivial(group, 1)
        self.spec = spec or KernelSpec()
        self.padding, self.padding_mode, self.stride = padding, padding_mode, stride
        self.measure = measure
        components = in_channels * self.rep_in.dim
        fan_in = components * self.spec.size**group.n
        self.kernel: nn.Module = AffineKernel(
            group, components * out_channels, self.spec, grouped=False, fan_in=fan_in
        )

    def _saved_options(self) -> Mapping[str, Any]:
        return {"padding_mode": self.padding_mode, "measure": self.measure}

    def forward(self, x: Tensor, samples: GroupSamples) -> tuple[Tensor, GroupSamples]:
        """Convolve fields ``(B, in_channels * rep_in.dim, *S)``.

        The components of a field are adjacent. Returns features ``(B, out_channels, N, *S_out)``
        and the samples.
        """
        check_group(samples, self.group, next(self.parameters(), None))
        check_features(x, self.in_channels * self.rep_in.dim, self.group.n, None)
        kernel = self.evaluate_kernel(samples).transpose(0, 1).flatten(0, 1)
        y = convolve(
            x, kernel, padding=self.padding, padding_mode=self.padding_mode, stride=self.stride
        )
        return unpack(y, len(samples)), samples

    def evaluate_kernel(self, samples: GroupSamples) -> Tensor:
        """Return the kernel ``(out_channels, N, in_channels * rep_in.dim, *k)`` on the pixel grid.

        It includes determinants and the pixel volume.
        """
        check_group(samples, self.group)
        n, size = self.group.n, self.spec.size
        grid = self.spec.grid(n).to(samples.h)
        values = self.kernel(relative_points(samples, grid))
        if not self.measure:  # kernels of all samples have the same integral over space
            values = values / samples.determinant.to(values)[:, None, None]
        values = values * self.spec.pixel_volume(n)
        values = read_field(values.unflatten(-1, (self.out_channels, -1)), self.rep_in, samples)
        return values.permute(2, 0, 3, 1).unflatten(-1, (size,) * n)


@takes_integers
class ProjectConv(SavedOptions):
    r"""Projection of features on a group to fields of scalars or tensors.

    .. math:: f(x) = \int_H \rho(\tilde h) \int k(\tilde h^{-1}(x - \tilde x))\,
              F(\tilde x, \tilde h)\, |\det \tilde h|^{-1}\, d\tilde x\, d\mu_H(\tilde h)

    Acting on the features moves the field, and its values by ``rep_out``, up to quadrature and
    grid.

    Other arguments: see :class:`GroupConv`.

    Parameters
    ----------
    in_channels, out_channels : int
        Scalar channels on the group, and fields on space.
    rep_out : Representation, optional
        Representation of the values, such as ``TensorRep(GLPlus(2))`` for velocities (default:
        scalars).

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> layer = ProjectConv(SO(2), 4, 6, KernelSpec(5), padding=2)
    >>> layer(torch.rand(2, 4, 8, 9, 9), equidistant_rotations(8)).shape
    torch.Size([2, 6, 9, 9])
    """

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, padding: int = 0, padding_mode: PaddingMode = "zeros",
        quadrature: Quadrature | None = None, rep_out: Representation | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        check_options((in_channels, out_channels), padding, padding_mode)
        self.group, self.in_channels, self.out_channels = group, in_channels, out_channels
        self.rep_in, self.rep_out = Trivial(group, 1), field_representation(rep_out, group)
        self.spec, self.quadrature = spec or KernelSpec(), quadrature or Quadrature()
        self.padding, self.padding_mode = padding, padding_mode
        fan_in = in_channels * self.spec.size**group.n
        self.kernel: nn.Module = AffineKernel(
            group,
            in_channels * out_channels * self.rep_out.dim,
            self.spec,
            grouped=False,
            fan_in=fan_in,
        )

    def _saved_options(self) -> Mapping[str, Any]:
        return {"padding_mode": self.padding_mode, "measure": self.quadrature.measure}

    def forward(self, x: Tensor, inputs: GroupSamples) -> Tensor:
        """Project ``(B, in_channels, N, *S)`` to ``(B, out_channels * rep_out.dim, *S_out)``."""
        check_group(inputs, self.group, next(self.parameters(), None))
        check_features(x, self.in_channels, self.group.n, len(inputs))
        kernel = self.evaluate_kernel(inputs).transpose(1, 2).flatten(1, 2)
        return convolve(pack(x), kernel, padding=self.padding, padding_mode=self.padding_mode)

    def evaluate_kernel(self, inputs: GroupSamples) -> Tensor:
        """Return the kernel ``(out_channels * rep_out.dim, in_channels, N, *k)`` on the pixel grid.

        It includes weights and determinants of the inputs.
        """
        n, size = self.group.n, self.spec.size
        grid = self.spec.grid(n).to(inputs.h)
        # The output at x reads the cell x + y of the features, whose kernel is at h^-1 (-y).
        values = self.kernel(relative_points(inputs, -grid))
        weight = self.quadrature.weights(inputs).to(values) * self.spec.pixel_volume(n)
        values = (values * weight[:, None, None]).unflatten(
            -1, (self.out_channels, self.rep_out.dim, self.in_channels)
        )
        values = write_field(values, self.rep_out, inputs).flatten(2, 3)
        return values.permute(2, 3, 0, 1).unflatten(-1, (size,) * n)
