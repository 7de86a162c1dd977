"""Group samples in layers: windows, weights, pooling, normalization and relative coordinates."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from equigeo._core.checks import checked_integer, convert_numbers, kind_of
from equigeo._core.tensors import values_readable
from equigeo.groups import GroupSamples, LinearGroup
from equigeo.groups.samples import split_component
from equigeo.nn.module import normalize_in_place
from equigeo.reps import Representation, Trivial

# Tolerated shortfall of a window: an exponential and a logarithm in float32 leave about ten units
# of rounding of 1e-7.
_SLACK = 1e-6


class WindowWarning(UserWarning):
    """Input samples do not cover the window that outputs and kernel require.

    An output at log-stretch ``r_out`` with a kernel of reach ``r_k`` reads inputs up to
    ``r_out + r_k``. If the inputs end earlier, the integral over the group is truncated and the
    layer is equivariant only up to the missing part, for any number of samples. A mean over a
    non-compact group is invariant only for features that vanish at the rim of the window. The
    attribute ``missing`` is the log-stretch by which the inputs fall short.

    Parameters
    ----------
    inputs, outputs, reach : float
        Largest log-stretch of the samples, and reach of the kernel.
    message : str
        By default that of a convolution.

    Examples
    --------
    >>> WindowWarning(inputs=0.5, outputs=0.25, reach=0.5).missing
    0.25
    """

    def __init__(
        self, inputs: float, outputs: float = math.inf, reach: float = 0.0, message: str = ""
    ) -> None:
        self.inputs, self.outputs, self.reach = inputs, outputs, reach
        self.missing = outputs + reach - inputs
        super().__init__(
            message
            or f"samples reach log-stretch {inputs:.3g}, but outputs up to {outputs:.3g} with a "
            f"kernel of reach {reach:.3g} need {outputs + reach:.3g}: equivariance to stretches "
            "is only approximate; enlarge the input window, or shrink that of the outputs or the "
            "kernel"
        )


@dataclass(frozen=True)
class Quadrature:
    """Weights of samples, and the number of output samples per chunk.

    Parameters
    ----------
    mean : bool
        Divide the weights by their sum, so that the number of samples may change after training.
    measure : bool
        Treat features as a measure that is pushed forward, as those of points: no determinants.
    chunk : int, optional
        Output samples at a time. Kernels are recomputed in the backward pass, and memory grows with
        ``chunk * N`` instead of ``N * N``.

    Examples
    --------
    >>> from equigeo.groups import equidistant_rotations
    >>> Quadrature().weights(equidistant_rotations(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    mean: bool = True
    measure: bool = False
    chunk: int | None = None

    def __post_init__(self) -> None:
        convert_numbers(self)
        if self.chunk is not None and self.chunk < 1:
            raise ValueError(f"chunk must be positive or None, got {self.chunk}")

    def weights(self, samples: GroupSamples) -> Tensor:
        r"""Return the left Haar measure ``(N,)`` of the samples, :math:`w_i\,|\det h_i|^{-1}`."""
        weight = samples.mean_weight if self.mean else samples.weight
        return weight if self.measure else weight / samples.determinant

    def in_chunks(
        self, convolve: Callable[[GroupSamples], Tensor], outputs: GroupSamples, dim: int
    ) -> Tensor:
        """Evaluate ``convolve`` for ``chunk`` outputs at a time and concatenate along ``dim``."""
        if self.chunk is None:
            return convolve(outputs)
        # With checkpointing, the backward pass recomputes the kernel of each chunk.
        indices = torch.arange(len(outputs), device=outputs.h.device).split(self.chunk)
        parts = [
            checkpoint(convolve, outputs.select(part), use_reentrant=False) for part in indices
        ]
        return torch.cat(parts, dim=dim)


class GroupPool(nn.Module):
    r"""Maximum or mean of features over the group, optionally over space.

    A mean over group and space weighs a sample with its affine Haar measure,
    :math:`w_i |\det h_i|^{-1}`; a mean over the group alone with :math:`w_i`.

    Results with ``space`` are invariant, up to the window of the samples; others are fields.

    Parameters
    ----------
    kind : {"max", "mean"}
        A mean over a group that is not compact emits :class:`WindowWarning`.
    space : bool
        Whether to pool over space as well.
    measure : bool
        Treat features as a measure that is pushed forward, as those of points: no determinants.

    Examples
    --------
    >>> from equigeo.groups import equidistant_rotations
    >>> GroupPool("max")(torch.rand(2, 6, 8, 9, 9), equidistant_rotations(8)).shape
    torch.Size([2, 6])
    """

    def __init__(
        self, kind: Literal["max", "mean"] = "max", space: bool = True, *, measure: bool = False
    ) -> None:
        super().__init__()
        if kind not in ("max", "mean"):
            raise ValueError(f"kind must be 'max' or 'mean', got {kind!r}")
        self.kind, self.space, self.measure = kind, space, measure
        # A mean over group and space uses the measure of the affine group, with |det h|^-1.
        self.quadrature = Quadrature(measure=measure or not space)

    def extra_repr(self) -> str:
        return f"{self.kind!r}, space={self.space}"

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        """Pool features ``(B, C, N, *S)`` to ``(B, C)``, or to ``(B, C, *S)`` without ``space``."""
        check_samples(samples)
        if not isinstance(x, Tensor):
            raise TypeError(f"features must be a Tensor, got {kind_of(x)}")
        if x.ndim < 3 or x.shape[2] != len(samples):
            raise ValueError(
                f"features must be (B, C, {len(samples)}, *S) for {len(samples)} samples, "
                f"got {tuple(x.shape)}"
            )
        if self.kind == "max":
            return x.flatten(2).amax(2) if self.space else x.amax(2)
        if samples.group.symmetric_dimension and values_readable(samples.h):
            message = (
                f"a mean over samples up to log-stretch {samples.radius:.3g} of a non-compact group"
                " is invariant only for features that vanish there, whatever the number of samples;"
                " take the maximum, or transform images to a frame first and sample only rotations"
            )
            warnings.warn(WindowWarning(samples.radius, message=message), stacklevel=2)
        weight = self.quadrature.weights(samples)
        weight = (weight / weight.sum()).to(x)
        pooled = torch.einsum("bci...,i->bc...", x, weight)
        return pooled.flatten(2).mean(2) if self.space and pooled.ndim > 2 else pooled


class SampleBatchNorm(nn.BatchNorm1d):
    """Batch norm of ``(B, C, N, *S)`` with statistics per channel, over samples and pixels alike.

    Arguments are those of :class:`torch.nn.BatchNorm1d`. Use :class:`SampleLayerNorm` in networks
    that draw new samples for each batch: no running statistics fit these.

    Examples
    --------
    >>> SampleBatchNorm(6)(torch.rand(2, 6, 8, 9, 9)).shape
    torch.Size([2, 6, 8, 9, 9])
    """

    def __init__(self, num_features: int, *args: Any, **options: Any) -> None:
        super().__init__(checked_integer("num_features", num_features), *args, **options)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize features ``(B, C, N, *S)``, keeping the memory layout of this package."""
        # Statistics for each sample would distinguish samples, and break equivariance.
        if x.stride(1) != 1:
            return super().forward(x.flatten(2)).view(x.shape)
        # Most layers leave channels innermost, then samples.
        normalized = super().forward(_channel_rows(x))
        normalized = normalized.view(x.shape[0], *x.shape[3:], *x.shape[2:0:-1])
        return normalized.permute(0, x.ndim - 1, x.ndim - 2, *range(1, x.ndim - 2))


class SampleLayerNorm(nn.Module):
    """Layer norm over channels, samples and pixels jointly, without parameters.

    ``eps`` is added to the variance.

    Examples
    --------
    >>> x = SampleLayerNorm()(torch.rand(2, 6, 8, 9, 9))
    >>> bool(x.mean((1, 2, 3, 4)).abs().max() < 1e-5)
    True
    """

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each image's features ``(B, C, N, *S)`` to mean 0 and variance 1."""
        return F.layer_norm(x, x.shape[1:], eps=self.eps)


def sample_norm(name: Literal["batch", "layer"], channels: int) -> nn.Module:
    """Return the normalization "batch" or "layer" for features ``(B, C, N, *S)``."""
    return SampleBatchNorm(channels) if name == "batch" else SampleLayerNorm()


def normalize(norm: nn.Module, x: Tensor, overwrite: bool) -> Tensor:
    """Normalize features, in their memory if it may be overwritten."""
    if not overwrite or type(norm) is not SampleBatchNorm or x.stride(1) != 1:
        return norm(x)
    rows = _channel_rows(x)
    in_place = rows.data_ptr() == x.data_ptr() and normalize_in_place(norm, rows)
    return x if in_place else norm(x)


def _channel_rows(x: Tensor) -> Tensor:
    """Return features (B, C, N, *S) as rows of channels, a view of those of most layers."""
    return x.permute(0, *range(3, x.ndim), 2, 1).reshape(-1, x.shape[1])


def check_samples(samples: object) -> None:
    """Raise ``TypeError`` if a value is not ``GroupSamples``."""
    if not isinstance(samples, GroupSamples):
        raise TypeError(f"samples must be GroupSamples, got {kind_of(samples)}")


def check_group(samples: GroupSamples, group: LinearGroup, weight: Tensor | None = None) -> None:
    """Raise if samples are not of the group of a layer, or not on the device of its weight."""
    check_samples(samples)
    if samples.group != group:
        raise ValueError(f"samples must be of {group}, got {samples.group}")
    if weight is not None and samples.h.device != weight.device:
        raise ValueError(
            f"samples must be on {weight.device} as the layer is, got {samples.h.device}: "
            "use samples.to(device=...)"
        )


def check_window(
    inputs: GroupSamples,
    outputs: GroupSamples,
    reach: float,  # log-stretch at which the kernel vanishes, maybe infinite
) -> WindowWarning | None:
    """Warn if the inputs of a group convolution do not cover outputs plus kernel; return it."""
    if inputs.group.symmetric_dimension == 0 or reach == 0:
        return None
    if not values_readable(inputs.h):
        return None
    available, wanted = inputs.radius, outputs.radius
    if available + _SLACK >= wanted + reach:
        return None
    warning = WindowWarning(available, wanted, reach)
    warnings.warn(warning, stacklevel=3)
    return warning


# A field of type rho moves as rho(A) f(A^-1 x). In the frame of the sample h it is rho(h^-1) f,
# whose components are scalars on the group. Kernels that read or write a field multiply by rho of
# their sample.


def field_representation(
    rep: Representation | None,  # None for a scalar field
    group: LinearGroup,
) -> Representation:
    """Return the representation of a field restricted to the group of a layer."""
    if rep is None:
        return Trivial(group, 1)
    if not isinstance(rep, Representation):
        raise TypeError(f"the values of a field have a Representation, got {rep!r}")
    if not rep.is_linear:
        raise ValueError(f"the values of a field need a linear representation, got {rep}")
    if not group.maps_to(rep.group):
        raise ValueError(f"{rep} is of {rep.group}, to which {group} does not map")
    return rep.restrict(group)


def read_field(values: Tensor, rep: Representation, samples: GroupSamples) -> Tensor:
    """Convert a kernel for components in the frame of each sample to one for field components."""
    if isinstance(rep, Trivial):
        return values
    matrices = rep.matrix(samples.h_inv).to(values)
    split = values.unflatten(-1, (-1, rep.dim))  # (N, *, channels, dim)
    return torch.einsum("n...e,ned->n...d", split, matrices).flatten(-2)


def write_field(values: Tensor, rep: Representation, samples: GroupSamples) -> Tensor:
    """Convert a kernel with outputs in the frame of each sample to one with field outputs."""
    if isinstance(rep, Trivial):
        return values
    matrices = rep.matrix(samples.h).to(values)
    return torch.einsum("nde,n...ec->n...dc", matrices, values)  # (N, *, dim, channels)


def relative_points(
    samples: GroupSamples,  # N elements h_o
    points: Tensor,  # (Q, n), displacements y_q
) -> Tensor:  # (N, Q, n)
    """Return displacements relative to the samples, :math:`h_o^{-1} y_q`."""
    return torch.einsum("oab,qb->oqa", samples.h_inv.to(points), points)


def relative_coordinates(outputs: GroupSamples, inputs: GroupSamples) -> Tensor:
    """Return coordinates (outputs, inputs, dimension) of ``h_o^-1 h_i``, with determinant signs."""
    # Half turns have the axis whose first nonzero component is positive.
    if outputs.group != inputs.group:
        raise ValueError(f"samples must be of one group, got {outputs.group} and {inputs.group}")
    group = inputs.group
    # Equivariant layers read only h_o^-1 h_i, which is invariant to left multiplication of both.
    products = outputs.h_inv[:, None] @ inputs.h[None]
    proper, mirror = split_component(group, products)
    coordinates = group.coordinates(proper)
    if not group.has_rotations:
        return coordinates
    stretch, rotation = coordinates.tensor_split([group.symmetric_dimension], dim=-1)
    signs = mirror[..., : int(group.has_reflections)]
    return torch.cat([stretch, _one_half_turn(rotation), signs], dim=-1)


def _one_half_turn(w: Tensor) -> Tensor:  # (..., 1 or 3)
    """Move rotations near half turns to one side of the cut of the logarithm."""
    # Samples that are closed under half turns have products that are half turns up to rounding.
    margin = torch.finfo(w.dtype).eps ** 0.5
    angle = torch.linalg.vector_norm(w, dim=-1, keepdim=True)
    nearly_half = angle > math.pi - margin
    angle = torch.where(nearly_half, angle, 1.0)
    axis = w / angle
    clear = axis.abs() > margin
    first = axis.gather(-1, clear.int().argmax(-1, keepdim=True))
    # An angle t about -a is the angle 2 pi - t about a.
    return torch.where(nearly_half & (first < 0), w * (1 - 2 * math.pi / angle), w)
