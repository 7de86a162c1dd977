"""Lifting convolution, from space to a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.affine.images.convolve import (
    PaddingMode,
    check_features,
    check_options,
    convolve,
    unpack,
)
from equigeo.affine.kernels.affine_kernel import AffineKernel
from equigeo.affine.kernels.kernel_spec import KernelSpec
from equigeo.affine.kernels.relative_coordinates import relative_points
from equigeo.affine.kernels.steering import field_representation, read_field
from equigeo.affine.samples.check_samples import check_group
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
