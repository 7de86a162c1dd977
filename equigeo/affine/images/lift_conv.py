"""From features on space to features on an affine group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.affine.images.convolve import (
    PaddingMode,
    check_features,
    check_padding,
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

    Parameters
    ----------
    group : LinearGroup
        The group ``H`` of linear parts, in 2 or 3 dimensions.
    in_channels, out_channels : int
        Fields on space, and scalar channels on the group.
    spec : KernelSpec, optional
        Size, network and window.
    padding, stride : int
        As in ``torch.nn.Conv2d``.
    padding_mode : {"zeros", "circular"}
        What padded cells hold.
    measure : bool
        Treat values as a measure that is pushed forward instead of a function: no determinant.
    rep_in : Representation, optional
        Of the values of a field, such as ``TensorRep(GLPlus(2))`` for velocities; scalars by
        default.

    Equivariance
    ------------
    ``rho(A) f(A^-1 (x - b))`` gives ``F(A^-1 (x - b), A^-1 h)`` for ``(b, A)`` in the affine group,
    up to the pixel grid. Exactly so for shifts by multiples of the stride. Exactly so also for
    symmetries of the grid that permute the samples, if the stride divides the size of the image
    plus twice the padding minus the size of the kernel; otherwise outputs are not centred.

    References
    ----------
    Mironenco and Forré, "Lie Group Decompositions for Equivariant Neural Networks", ICLR 2024.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> layer = LiftConv(SO(2), 1, 6, KernelSpec(5), padding=2)
    >>> features, samples = layer(torch.rand(2, 1, 9, 9), equidistant_rotations(8))
    >>> features.shape
    torch.Size([2, 6, 8, 9, 9])
    >>> from equigeo.reps import TensorRep
    >>> flow = LiftConv(SO(2), 1, 6, KernelSpec(5), padding=2, rep_in=TensorRep(SO(2)))
    >>> flow(torch.rand(2, 2, 9, 9), equidistant_rotations(8))[0].shape
    torch.Size([2, 6, 8, 9, 9])
    """

    def __init__(  # noqa: PLR0913 - most by name
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, padding: int = 0, padding_mode: PaddingMode = "zeros",
        stride: int = 1, measure: bool = False, rep_in: Representation | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        check_padding(padding, padding_mode)
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
        """Convolve images to features on group samples.

        Parameters
        ----------
        x : Tensor, (B, in_channels * rep_in.dim, *S), floating
            Fields on an image or a volume, the components of one next to each other.
        samples : GroupSamples
            Where to evaluate on the group.

        Returns
        -------
        features : Tensor, (B, out_channels, N, *S_out), dtype of ``x``
            Features on the group.
        samples : GroupSamples
            Those they live on.

        Raises
        ------
        ValueError
            If shapes or groups do not match.
        """
        check_group(samples, self.group, next(self.parameters(), None))
        check_features(x, self.in_channels * self.rep_in.dim, self.group.n, None)
        kernel = self.evaluate_kernel(samples).transpose(0, 1).flatten(0, 1)
        y = convolve(
            x, kernel, padding=self.padding, padding_mode=self.padding_mode, stride=self.stride
        )
        return unpack(y, len(samples)), samples

    def evaluate_kernel(self, samples: GroupSamples) -> Tensor:
        """Return the kernel on the pixel grid, including determinants and the pixel area.

        Parameters
        ----------
        samples : GroupSamples
            Elements of the outputs.

        Returns
        -------
        Tensor, (out_channels, N, in_channels * rep_in.dim, *k), floating
            The weights of an ordinary convolution.

        Raises
        ------
        ValueError
            If the samples are of another group.
        """
        check_group(samples, self.group)
        n, size = self.group.n, self.spec.size
        grid = self.spec.grid(n).to(samples.h)
        values = self.kernel(relative_points(samples, grid))
        if not self.measure:  # the kernel has the same integral over space at every sample
            values = values / samples.determinant.to(values)[:, None, None]
        values = values * self.spec.pixel_volume(n)
        values = read_field(values.unflatten(-1, (self.out_channels, -1)), self.rep_in, samples)
        return values.permute(2, 0, 3, 1).unflatten(-1, (size,) * n)
