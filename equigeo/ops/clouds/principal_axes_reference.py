"""Reference implementation of the ops of principal axes, and their shared rules."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from equigeo.ops.clouds.axis_flags import dependent_axis
from equigeo.ops.clouds.axis_rules import ScaleRule, SignRule
from equigeo.ops.clouds.cloud_sums import Clouds, safe_divisor, safe_root, scale_factors
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import Gradients

batch_clouds = blocks(("x", "weight"), offsets=["ptr"])

RESULTS = ("y", "frame", "centroid", "spread", "size", "margin")

Axes = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def principal_axes_reference(
    x: Tensor,
    ptr: Tensor,
    weight: Tensor | None,
    center: bool,
    signs: int,
    scale: int,
    null_tol: float,
    smoothing: float,
) -> Axes:
    """Reference implementation of :func:`principal_axes`, differentiable by PyTorch alone."""
    clouds = Clouds.of(ptr, weight, len(x))
    points = torch.where(clouds.counts, x.double(), 0)
    unit, mean, power = _shift(points, clouds, center)
    noise = null_tol * clouds.largest(points) / power
    coordinates, axes, null = _rotate(unit, clouds, noise)
    margin = _skewness(coordinates.detach(), clouds)
    sign = _signs(margin, axes.detach(), null, signs)
    coordinates, frame = coordinates * sign[clouds.segment], axes * sign[:, None, :]

    spread = safe_root(clouds.add_up(clouds.weight[:, None] * coordinates.square()))
    if scale == ScaleRule.UNSCALED:
        size = (spread[:, 0] > 0).to(power)
        y = coordinates * power[clouds.segment, None]
    else:
        size = safe_root((scale_factors(scale, clouds.total, x.shape[1]) * spread.square()).sum(-1))
        y = coordinates / safe_divisor(size)[clouds.segment, None]
        size = size * power
    spread = spread * power[:, None]
    finite = clouds.largest(points).isfinite()
    y = torch.where(finite[clouds.segment, None] & clouds.counts, y, 0)
    y = torch.where(finite[clouds.segment, None], y, torch.nan)
    rest = [frame, mean, spread, size[:, None], margin * sign]
    rest = [torch.where(finite.view(-1, *(1,) * (r.ndim - 1)), r, torch.nan) for r in rest]
    frame, mean, spread, size, margin = (r.to(x.dtype) for r in rest)
    return y.to(x.dtype), frame, mean, spread, size, margin


def _shift(points: Tensor, clouds: Clouds, center: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Centre clouds and divide them by powers of two, which rounds nothing."""
    if center and len(points):
        origin = points[clouds.first()] * (clouds.total > 0)[:, None]
    else:
        origin = points.new_zeros(len(clouds.total), points.shape[1])
    shifted = torch.where(clouds.counts, points - origin[clouds.segment], 0)
    size = clouds.largest(shifted)
    size = torch.where(size.isfinite() & (size > 0), size, 1)
    power = torch.ldexp(torch.ones_like(size), torch.frexp(size).exponent)
    unit = shifted / power[clouds.segment, None]
    if not center:
        return unit, origin, power
    mean = clouds.mean(unit)
    unit = torch.where(clouds.counts, unit - mean[clouds.segment], 0)
    return unit, origin + power[:, None] * mean, power


def _rotate(unit: Tensor, clouds: Clouds, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the coordinates along the axes, the axes, and a mask of null axes."""
    weighted = clouds.weight[:, None] * unit
    scatter = clouds.add_up(weighted[:, :, None] * unit[:, None, :])
    finite = scatter.detach().isfinite().flatten(1).all(-1)[:, None, None]
    identity = torch.eye(unit.shape[1], dtype=unit.dtype, device=unit.device)
    # One matrix that is not finite would make the solver refuse the whole batch.
    axes = torch.linalg.eigh(torch.where(finite, scatter, identity)).eigenvectors.flip(-1)
    coordinates = torch.einsum("pi,pik->pk", unit, axes[clouds.segment])
    small = clouds.mean(coordinates.detach().square()).sqrt() <= noise[:, None]
    null = small.int().cummax(-1).values.bool() if len(small) else small  # the last ones
    axes = torch.where(null.all(-1)[:, None, None], identity, axes)
    return torch.where(null[clouds.segment], 0, coordinates), axes, null


def _skewness(coordinates: Tensor, clouds: Clouds) -> Tensor:
    # Between -1 and 1 for every scale, and odd in the axis, which fixes its sign.
    cubes = clouds.weight[:, None] * coordinates**3
    return clouds.add_up(cubes) / safe_divisor(clouds.add_up(cubes.abs()))


def _signs(margin: Tensor, axes: Tensor, null: Tensor, signs: int) -> Tensor:
    if signs == SignRule.AS_FOUND:
        return torch.ones_like(margin)
    sign = torch.where(margin < 0, -1.0, 1.0).to(margin.dtype)
    if signs in (SignRule.LAST, SignRule.LEAST) and len(margin):
        left = torch.linalg.det(axes) * sign.prod(-1) < 0
        sign = torch.where(dependent_axis(margin, null, signs) & left[:, None], -sign, sign)
    return sign


def fake_axes(x: Tensor, ptr: Tensor) -> Axes:
    """Return empty results of the right shapes, for both declarations."""
    clouds, dim = ptr.shape[0] - 1, x.shape[1]
    rows = x.new_empty(clouds, dim)
    return (
        x.new_empty(x.shape),
        x.new_empty(clouds, dim, dim),
        rows,
        torch.empty_like(rows),
        x.new_empty(clouds, 1),
        torch.empty_like(rows),
    )


def backward_by(
    gradient: Callable[..., Tensor],  # the gradient op or its reference implementation
) -> Callable[..., Gradients]:
    """Return the backward rule shared by both declarations."""

    def backward(  # noqa: PLR0913 - arguments of the gradient
        *arriving: Tensor,
        y: Tensor,
        frame: Tensor,
        spread: Tensor,
        size: Tensor,
        ptr: Tensor,
        weight: Tensor | None,
        center: bool,
        scale: int,
        smoothing: float,
    ) -> Gradients:
        *grads, _ = arriving  # the last result, the margin, is constant
        kept = (y, frame, spread, size, ptr, weight, center, scale, smoothing)
        return {"x": gradient(*grads, *kept)}

    return backward
