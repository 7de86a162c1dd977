"""Convolutions of images from space to a group, on it, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.checks import checked_integer, kind_of, takes_integers
from equigeo._core.deprecation import moved_arguments
from equigeo.affine.kernels import (
    AffineKernel,
    KeepsKernels,
    KernelSpec,
    PaddingMode,
    scaled_values,
)
from equigeo.affine.samples import (
    Quadrature,
    check_group,
    check_window,
    field_representation,
    read_field,
    relative_coordinates,
    relative_points,
    write_field,
)
from equigeo.groups import GroupSamples, LinearGroup
from equigeo.reps import Representation, Trivial


class ImageConvolution(KeepsKernels):
    """Base of convolutions of images: their options, and the convolution in space."""

    rep_in: Representation
    rep_out: Representation

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None, padding: int, measure: bool, stride: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        if min(in_channels, out_channels) < 1:
            raise ValueError(f"channels must be positive, got {in_channels} and {out_channels}")
        self.group, self.in_channels, self.out_channels = group, in_channels, out_channels
        self.rep_in = self.rep_out = Trivial(group, 1)
        self.spec, self.measure = spec or KernelSpec(), measure
        self.padding = checked_integer("padding", padding, 0)
        self.stride = checked_integer("stride", stride, 1)

    def _saved_options(self) -> Mapping[str, Any]:
        return {"padding_mode": self.spec.padding_mode, "measure": self.measure}

    def _convolve(
        self, x: Tensor, kernel: Tensor, channels_last: bool = True, **options: Any
    ) -> Tensor:
        mode, options = self.spec.padding_mode, {"stride": self.stride, **options}
        return convolve(
            x, kernel, channels_last, padding=self.padding, padding_mode=mode, **options
        )

    def _sampled(
        self, name: str, evaluate: Callable[[], Tensor], x: Tensor, *samples: GroupSamples,
        channels_last: bool = True,
    ) -> Tensor:  # fmt: skip
        """Return the kernel of a network of the layer as a convolution of ``x`` reads it."""

        def formatted() -> Tensor:
            return in_format(evaluate().to(x.dtype), channels_last)

        options = (name, x.dtype, channels_last)
        return self._kept(formatted, getattr(self, name), samples, options)

    def _on_grid(self, values: Tensor) -> Tensor:
        """Divide the last axis, cells of the kernel, into the axes of space."""
        return values.unflatten(-1, (self.spec.size,) * self.group.n)


@takes_integers
class GroupConvolution(ImageConvolution, ABC):
    """Base of convolutions of features on a group: checks, windows, chunks and bias."""

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, padding: int = 0,
        quadrature: Quadrature | None = None, bias: bool = True,
    ) -> None:  # fmt: skip
        quadrature = quadrature or Quadrature()
        super().__init__(group, in_channels, out_channels, spec, padding, quadrature.measure)
        self.quadrature = quadrature
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    def forward(
        self,
        x: Tensor,  # (B, in_channels, N, *S)
        inputs: GroupSamples,
        outputs: GroupSamples | None = None,  # by default the inputs
    ) -> tuple[Tensor, GroupSamples]:  # (B, out_channels, N_out, *S_out), outputs
        """Convolve features on group samples; return them with the samples of the output."""
        outputs = inputs if outputs is None else outputs
        weight = next(self.parameters(), None)
        check_group(inputs, self.group, weight)
        check_group(outputs, self.group, weight)
        check_features(x, self.in_channels, self.group.n, len(inputs))
        check_window(inputs, outputs, self.spec.reach)
        packed = pack(x, self._in_channels_last(x))
        y = self.quadrature.in_chunks(
            lambda part: self.convolve(packed, inputs, part), outputs, dim=1
        )
        return unpack(y, len(outputs)), outputs

    @abstractmethod
    def convolve(
        self,
        packed: Tensor,  # (B, N in_channels, *S)
        inputs: GroupSamples,
        outputs: GroupSamples,
    ) -> Tensor:  # (B, N_out out_channels, *S_out)
        """Convolve features packed with samples slowest."""

    def _bias(self, outputs: GroupSamples, like: Tensor) -> Tensor | None:
        """Return the bias of packed features, (N_out out_channels)."""
        return None if self.bias is None else self.bias.to(like.dtype).repeat(len(outputs))

    def _in_channels_last(self, x: Tensor) -> bool:
        """Return whether features are convolved in channels-last format."""
        return True


@moved_arguments("spec", KernelSpec, "padding_mode")
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

    In evaluation mode without gradients, convolutions of this package keep the kernels of their
    last samples on CPUs, until a parameter, submodule, option or sample changes.

    Parameters
    ----------
    group : LinearGroup
        The group ``H`` of linear parts, in 2 or 3 dimensions.
    in_channels, out_channels : int
        Scalar channels on the group.
    spec : KernelSpec, optional
        Size, network and window of the kernel, and values of the added cells.
    padding : int
        Cells added on every side.
    quadrature : Quadrature, optional
        Weights of the samples, and how many outputs are computed at a time.
    bias : bool
        Add a number to each channel.

    Examples
    --------
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> layer = GroupConv(SO(2), 4, 6, KernelSpec(5), padding=2)
    >>> features, samples = layer(torch.rand(2, 4, 8, 9, 9), equidistant_rotations(8))
    >>> features.shape
    torch.Size([2, 6, 8, 9, 9])
    """

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, padding: int = 0,
        quadrature: Quadrature | None = None, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(group, in_channels, out_channels, spec, padding, quadrature, bias)
        fan_in = in_channels * self.spec.size**group.n
        self.kernel: nn.Module = AffineKernel(
            group, in_channels * out_channels, self.spec, fan_in=fan_in
        )

    def evaluate_kernel(self, inputs: GroupSamples, outputs: GroupSamples) -> Tensor:
        """Return the kernel ``(out_channels, N_out, in_channels, N, *k)`` on the pixel grid.

        It includes weights and determinants of the inputs.
        """
        n = self.group.n
        grid = self.spec.grid(n).to(outputs.h)
        u = relative_points(outputs, grid)[:, None]
        s = relative_coordinates(outputs, inputs)[:, :, None]
        shape = (len(outputs), len(inputs), len(grid))
        # The measure of the sum contains the determinants of the inputs, not of the outputs.
        weight = self.quadrature.weights(inputs)[:, None] * self.spec.pixel_volume(n)
        values = scaled_values(self.kernel, weight, u.expand(*shape, -1), s.expand(*shape, -1))
        values = values.unflatten(-1, (self.out_channels, self.in_channels))
        return self._on_grid(values.permute(3, 0, 4, 1, 2))

    def convolve(self, packed: Tensor, inputs: GroupSamples, outputs: GroupSamples) -> Tensor:
        def evaluate() -> Tensor:
            # (C_out, N_out, C_in, N_in, *k) to (N_out C_out, N_in C_in, *k), as packed features.
            kernel = self.evaluate_kernel(inputs, outputs).transpose(0, 1).transpose(2, 3)
            return kernel.flatten(2, 3).flatten(0, 1)

        last = self._in_channels_last(packed)
        kernel = self._sampled("kernel", evaluate, packed, inputs, outputs, channels_last=last)
        return self._convolve(packed, kernel, last, bias=self._bias(outputs, packed))

    def _in_channels_last(self, x: Tensor) -> bool:
        # On CPUs, dense products of many channels are slower in channels-last format in space, and
        # in the plane without AVX-512, with which both take equally long. Others are faster in it.
        return x.device.type != "cpu"


@moved_arguments("spec", KernelSpec, "padding_mode")
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
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> layer = SeparableGroupConv(SO(2), 4, 6, KernelSpec(5), padding=2)
    >>> layer(torch.rand(2, 4, 8, 9, 9), equidistant_rotations(8))[0].shape
    torch.Size([2, 6, 8, 9, 9])
    """

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, spatial: Literal["depthwise", "dense"] = "depthwise",
        padding: int = 0, quadrature: Quadrature | None = None, bias: bool = True,
    ) -> None:  # fmt: skip
        if spatial not in ("depthwise", "dense"):
            raise ValueError(f"spatial must be 'depthwise' or 'dense', got {spatial!r}")
        super().__init__(group, in_channels, out_channels, spec, padding, quadrature, bias)
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
        weight = self.quadrature.weights(inputs)
        values = scaled_values(self.group_kernel, weight, s=relative_coordinates(outputs, inputs))
        values = values.unflatten(-1, (self.out_channels, self.in_channels))
        return values.permute(2, 0, 3, 1)

    def evaluate_spatial_kernel(self, outputs: GroupSamples) -> Tensor:
        """Return the kernel on space times the pixel volume.

        Shape ``(N_out, out_channels, 1 or out_channels, *k)``.
        """
        n = self.group.n
        grid = self.spec.grid(n).to(outputs.h)
        volume = grid.new_tensor(self.spec.pixel_volume(n))
        values = scaled_values(self.spatial_kernel, volume, relative_points(outputs, grid))
        values = values.unflatten(-1, (self.out_channels, -1))
        return self._on_grid(values.permute(0, 2, 3, 1))

    def convolve(self, packed: Tensor, inputs: GroupSamples, outputs: GroupSamples) -> Tensor:
        def mix() -> Tensor:
            mixing = self.evaluate_group_kernel(inputs, outputs).permute(1, 0, 3, 2)
            mixing = mixing.flatten(2).flatten(0, 1)
            return mixing.view(*mixing.shape, *[1] * self.group.n)

        def spread() -> Tensor:
            return merge_leading(self.evaluate_spatial_kernel(outputs))

        # Group part: mix samples and channels at each pixel, by a convolution of size 1.
        mixed = convolve(packed, self._sampled("group_kernel", mix, packed, inputs, outputs))
        # Spatial part: one convolution group per sample, or per sample and channel.
        groups = len(outputs) * (1 if self.spatial == "dense" else self.out_channels)
        kernel = self._sampled("spatial_kernel", spread, mixed, outputs)
        return self._convolve(mixed, kernel, groups=groups, bias=self._bias(outputs, mixed))


_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def convolve(
    x: Tensor,  # (B, C, *S)
    kernel: Tensor,  # (C_out, C / groups, *k), cast to the dtype of x
    channels_last: bool = True,
    *,
    padding: int = 0,
    padding_mode: PaddingMode = "zeros",
    **options: Any,  # bias, stride and groups
) -> Tensor:  # (B, C_out, *S_out)
    """Cross-correlate in any number of dimensions, in one memory format."""
    n = x.ndim - 2
    # The result has the format of the kernel; the next layer packs either as a view.
    kernel = in_format(kernel.to(x.dtype), channels_last)
    x = x if channels_last else x.contiguous()
    if padding and padding_mode == "circular":
        x = F.pad(x, [padding] * (2 * n), mode="circular")
        padding = 0
    return _CONVOLUTIONS[n](x, kernel, padding=padding, **options)


def merge_leading(kernel: Tensor) -> Tensor:  # (N, C_out, C, *k) to (N C_out, C, *k)
    """Merge the axes of samples and outputs, channels innermost in memory."""
    return kernel.movedim(2, -1).flatten(0, 1).movedim(-1, 1)


def in_format(
    kernel: Tensor,  # (C_out, C, *k)
    channels_last: bool,  # if there is such a format
) -> Tensor:
    """Return a kernel in the memory format of a convolution."""
    n = kernel.ndim - 2
    if not channels_last or n not in (2, 3):
        return kernel.contiguous()
    last = kernel.movedim(1, -1)
    # Strides of one channel fit both formats, of which the result would have the other one.
    one = kernel.shape[1] == 1 and kernel.stride(1) != 1
    last = last.clone(memory_format=torch.contiguous_format) if one else last.contiguous()
    return last.movedim(-1, 1)


def pack(
    x: Tensor,  # (B, C, N, *S)
    channels_last: bool = True,  # in memory, if x has to be copied
) -> Tensor:  # (B, N C, *S), a view of results of unpack
    """Merge samples and channels, samples slowest."""
    if not channels_last:
        return x.transpose(1, 2).flatten(1, 2)
    return x.permute(0, *range(3, x.ndim), 2, 1).flatten(-2).movedim(-1, 1)


def unpack(
    x: Tensor,  # (B, N C, *S)
    samples: int,  # N
) -> Tensor:  # (B, C, N, *S), a view
    """Apply the inverse of :func:`pack`."""
    return x.unflatten(1, (samples, -1)).transpose(1, 2)


def check_features(
    x: object,
    channels: int,  # expected channels
    n: int,  # number of spatial axes
    samples: int | None,  # number of samples; None for features on space
) -> None:
    """Validate the shape and dtype of features ``(B, C, N, *S)``, or ``(B, C, *S)``."""
    if not isinstance(x, Tensor):
        raise TypeError(f"features must be a Tensor, got {kind_of(x)}")
    lead = [channels] if samples is None else [channels, samples]
    if x.ndim != 1 + len(lead) + n or list(x.shape[1 : 1 + len(lead)]) != lead:
        names = ["batch", *map(str, lead), *["size"] * n]
        raise ValueError(f"features must be ({', '.join(names)}), got {tuple(x.shape)}")
    # Kernels are cast to the dtype of features; integers would truncate them to zero.
    if not x.is_floating_point():
        raise TypeError(f"features must be floating, got {x.dtype}")


@moved_arguments("spec", KernelSpec, "padding_mode")
@takes_integers
class LiftConv(ImageConvolution):
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
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> from equigeo.reps import TensorRep
    >>> layer = LiftConv(SO(2), 1, 6, KernelSpec(5), padding=2, rep_in=TensorRep(SO(2)))
    >>> layer(torch.rand(2, 2, 9, 9), equidistant_rotations(8))[0].shape  # of a vector field
    torch.Size([2, 6, 8, 9, 9])
    """

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, padding: int = 0, stride: int = 1,
        measure: bool = False, rep_in: Representation | None = None,
    ) -> None:  # fmt: skip
        super().__init__(group, in_channels, out_channels, spec, padding, measure, stride)
        self.rep_in = field_representation(rep_in, group)
        components = in_channels * self.rep_in.dim
        fan_in = components * self.spec.size**group.n
        self.kernel: nn.Module = AffineKernel(
            group, components * out_channels, self.spec, grouped=False, fan_in=fan_in
        )

    def forward(self, x: Tensor, samples: GroupSamples) -> tuple[Tensor, GroupSamples]:
        """Convolve fields ``(B, in_channels * rep_in.dim, *S)``.

        The components of a field are adjacent. Returns features ``(B, out_channels, N, *S_out)``
        and the samples.
        """
        check_group(samples, self.group, next(self.parameters(), None))
        check_features(x, self.in_channels * self.rep_in.dim, self.group.n, None)

        def evaluate() -> Tensor:
            return merge_leading(self.evaluate_kernel(samples).transpose(0, 1))

        kernel = self._sampled("kernel", evaluate, x, samples)
        return unpack(self._convolve(x, kernel), len(samples)), samples

    def evaluate_kernel(self, samples: GroupSamples) -> Tensor:
        """Return the kernel ``(out_channels, N, in_channels * rep_in.dim, *k)`` on the pixel grid.

        It includes determinants and the pixel volume.
        """
        check_group(samples, self.group)
        n = self.group.n
        grid = self.spec.grid(n).to(samples.h)
        factor = grid.new_tensor(self.spec.pixel_volume(n))
        if not self.measure:  # kernels of all samples have the same integral over space
            factor = factor / samples.determinant[:, None]
        values = scaled_values(self.kernel, factor, relative_points(samples, grid))
        values = read_field(values.unflatten(-1, (self.out_channels, -1)), self.rep_in, samples)
        return self._on_grid(values.permute(2, 0, 3, 1))


@moved_arguments("spec", KernelSpec, "padding_mode")
@takes_integers
class ProjectConv(ImageConvolution):
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
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> layer = ProjectConv(SO(2), 4, 6, KernelSpec(5), padding=2)
    >>> layer(torch.rand(2, 4, 8, 9, 9), equidistant_rotations(8)).shape
    torch.Size([2, 6, 9, 9])
    """

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, *, padding: int = 0,
        quadrature: Quadrature | None = None, rep_out: Representation | None = None,
    ) -> None:  # fmt: skip
        quadrature = quadrature or Quadrature()
        super().__init__(group, in_channels, out_channels, spec, padding, quadrature.measure)
        self.quadrature, self.rep_out = quadrature, field_representation(rep_out, group)
        components = out_channels * self.rep_out.dim
        fan_in = in_channels * self.spec.size**group.n
        self.kernel: nn.Module = AffineKernel(
            group, in_channels * components, self.spec, grouped=False, fan_in=fan_in
        )

    def forward(self, x: Tensor, inputs: GroupSamples) -> Tensor:
        """Project ``(B, in_channels, N, *S)`` to ``(B, out_channels * rep_out.dim, *S_out)``."""
        check_group(inputs, self.group, next(self.parameters(), None))
        check_features(x, self.in_channels, self.group.n, len(inputs))

        def evaluate() -> Tensor:
            return self.evaluate_kernel(inputs).transpose(1, 2).flatten(1, 2)

        return self._convolve(pack(x), self._sampled("kernel", evaluate, x, inputs))

    def evaluate_kernel(self, inputs: GroupSamples) -> Tensor:
        """Return the kernel ``(out_channels * rep_out.dim, in_channels, N, *k)`` on the pixel grid.

        It includes weights and determinants of the inputs.
        """
        n = self.group.n
        grid = self.spec.grid(n).to(inputs.h)
        # The output at x reads the cell x + y of the features, whose kernel is at h^-1 (-y).
        weight = self.quadrature.weights(inputs)[:, None] * self.spec.pixel_volume(n)
        values = scaled_values(self.kernel, weight, relative_points(inputs, -grid))
        values = values.unflatten(-1, (self.out_channels, self.rep_out.dim, self.in_channels))
        values = write_field(values, self.rep_out, inputs).flatten(2, 3)
        return self._on_grid(values.permute(2, 3, 0, 1))
