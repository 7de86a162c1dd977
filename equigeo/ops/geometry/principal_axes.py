"""Coordinates of clouds of points along their principal axes, in one pass over each cloud."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_dtype, check_features, check_index
from equigeo._core.tensors import computes_in_float32
from equigeo.ops.geometry.axis_flags import dependent_axis
from equigeo.ops.geometry.axis_rules import (
    Clouds,
    ScaleRule,
    SignRule,
    safe_divisor,
    safe_root,
    scale_factors,
)
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like, reference_of
from equigeo.ops.runtime.tape import Gradients

RESULTS = ("y", "frame", "centroid", "spread", "size", "margin")

Axes = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]

SCHEMA = (
    "principal_axes(Tensor x, Tensor ptr, Tensor? weight, bool center, int signs, int scale, "
    "float null_tol, float smoothing) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)


@computes_in_float32
def principal_axes(
    x: Tensor,
    ptr: Tensor,
    weight: Tensor | None,
    center: bool,
    signs: int,
    scale: int,
    null_tol: float,
    smoothing: float,
) -> Axes:
    r"""Rotate each cloud to its principal axes (Torgerson 1952).

    .. math:: y_i = (x_i - c)\, F / \sigma, \qquad
              \sum_i w_i (x_i - c)(x_i - c)^T = F\, \mathrm{diag}(s^2)\, F^T

    with descending spreads :math:`s`. Means and scatter matrices are accumulated and diagonalized
    in float64 for every dtype. The sign of each axis makes its skewness
    :math:`m_k = \sum_i w_i y_{ik}^3 / \sum_i w_i |y_{ik}|^3` positive. ``y`` is invariant under
    isometries and, scaled, similarities, wherever squared spreads differ and no skewness vanishes;
    ``frame`` turns with the points.

    Parameters
    ----------
    x : Tensor, (points, dim)
        Points, cloud by cloud; dim at least 1.
    ptr : Tensor, (clouds + 1,), int64
        Offsets of the clouds, ascending from 0 to ``points``.
    weight : Tensor, (points,), dtype of ``x``, optional
        Nonnegative, by default ones, without gradient. Results of points of weight zero are zero.
    center : bool
        Whether c is the weighted mean; else the origin.
    signs : SignRule or int
        Rule for the signs of axes. A null axis is the first to be turned for a right-handed frame.
    scale : ScaleRule or int
        What points are divided by.
    null_tol : float
        An axis is null where the root mean square of coordinates along it is at most this times
        the largest magnitude of a coordinate of the cloud; coordinates along it are exactly zero.
    smoothing : float
        The gradient has :math:`\Delta / (\Delta^2 + \eta^2)` for :math:`1 / \Delta`, differences
        of squared spreads relative to the first; infinity omits the rotation of axes.

    Returns
    -------
    y : Tensor, (points, dim)
        Coordinates.
    frame : Tensor, (clouds, dim, dim)
        Orthogonal; axes are columns. The identity where every axis is null.
    centroid : Tensor, (clouds, dim)
        c, zero for a cloud without weight.
    spread : Tensor, (clouds, dim)
        s, root of the sum of squares along each axis before scaling; zero for null axes.
    scale : Tensor, (clouds, 1)
        σ, one for no scaling; zero where nothing spreads, and points are then not divided.
    margin : Tensor, (clouds, dim)
        m, negative only for an axis that makes a frame right-handed; not differentiated.

    All results of a cloud that is not finite are NaN.

    Examples
    --------
    >>> x = torch.tensor([[0.0, 0.0], [0.0, 3.0], [0.0, 9.0]])
    >>> y, *_ = principal_axes(x, torch.tensor([0, 3]), None, True, 1, 0, 1e-6, 1e-6)
    >>> y.tolist()
    [[-4.0, 0.0], [-1.0, 0.0], [5.0, 0.0]]
    """
    check_features("x", x, ("points", "dim"))
    check_index("ptr", ptr, at_least=1)
    check_device(x=x, ptr=ptr)
    if x.shape[1] < 1:
        raise ValueError("x must have at least one component, got none")
    if weight is not None:
        check_features("weight", weight, ("points",))
        check_device(x=x, weight=weight)
        check_dtype("weight", weight, "x", x)
        if weight.shape[0] != x.shape[0]:
            raise ValueError(f"weight must be ({x.shape[0]},), got {tuple(weight.shape)}")
    for name, value, last in (("signs", signs, SignRule.LEAST), ("scale", scale, ScaleRule.PAIRS)):
        if not 0 <= value <= last:
            raise ValueError(f"{name} must be from 0 to {last:d}, got {value}")
    # Kernels are written for up to three dimensions.
    op = principal_axes_op if x.shape[1] <= 3 else principal_axes_nd
    return op(x, ptr, weight, center, int(signs), int(scale), null_tol, smoothing)


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
    """Center clouds and divide them by powers of two, which rounds nothing."""
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
    # One matrix that is not finite would make the solver raise for the whole batch.
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


def _fake(x: Tensor, ptr: Tensor) -> Axes:
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


BACKWARD_SCHEMA = (
    "principal_axes_backward(Tensor grad_y, Tensor grad_frame, Tensor grad_centroid, "
    "Tensor grad_spread, Tensor grad_scale, Tensor y, Tensor frame, Tensor spread, Tensor scale, "
    "Tensor ptr, Tensor? weight, bool center, int kind, float smoothing) -> Tensor"
)

ROUNDING = 32.0
"""A torque of no more roundings than this is none.

Each of the four factors of a torque carries a few; a power of two above their sum, and far below
any torque that turns axes on purpose.
"""

_GRADIENTS = ("grad_y", "grad_frame", "grad_centroid", "grad_spread", "grad_scale")

_AXES = ("y", "frame", "spread", "scale")

_DIFFERENTIABLE = (*_GRADIENTS, *_AXES)


def principal_axes_backward_reference(
    ptr: Tensor, weight: Tensor | None, center: bool, kind: int, smoothing: float, **rest: Tensor
) -> Tensor:
    """Reference implementation of the op, differentiable by PyTorch alone."""
    dtype = rest["y"].dtype
    grad_y, grad_frame, grad_centroid, grad_spread, grad_scale = (
        rest[name].double() for name in _GRADIENTS
    )
    y, frame, spread, scale = (rest[name].double() for name in _AXES)
    clouds = Clouds.of(ptr, weight, len(y))
    segment, total = clouds.segment, safe_divisor(clouds.total)[:, None]
    alive = spread > 0
    first = safe_divisor(spread[:, :1])

    size = safe_divisor(scale)
    grad_y = torch.where(alive[segment] & clouds.counts, grad_y, 0) / size[segment]
    if kind != ScaleRule.UNSCALED:
        along = grad_scale - clouds.add_up((grad_y * y).sum(-1, keepdim=True))
        factors = scale_factors(kind, clouds.total, y.shape[1])
        grad_spread = grad_spread + factors * (spread / size) * along

    unit = y * (size / first)[segment]
    # Torque T = y^T gy - gy^T y + F^T gF - gF^T F, with gy the gradient of unscaled coordinates,
    # and G_jk = T_jk D / (D^2 + eta^2) with D = s_k^2 - s_j^2.
    turn = _turn(unit, grad_y, (frame.mT @ grad_frame) / first[..., None], spread / first, clouds,
                 smoothing, torch.finfo(dtype).eps)  # fmt: skip
    # A spread is the length of one column of coordinates: it pulls along them.
    stretch = torch.where(alive, grad_spread * (first / safe_divisor(spread)), 0)
    matrix = turn + torch.diag_embed(stretch)
    # gx_i = J [gy_i + w_i y_i G + w_i y_i diag(gs / s)] F^T
    moved = grad_y + clouds.weight[:, None] * torch.einsum("pi,pik->pk", unit, matrix[segment])
    grad = torch.einsum("pk,pik->pi", moved, frame[segment])
    if center:
        # Moving one point moves the mean that all are relative to.
        drift = grad_centroid - clouds.add_up(grad)
        grad = grad + clouds.weight[:, None] * (drift / total)[segment]
    return grad.to(dtype)


def _turn(
    unit: Tensor,
    grad: Tensor,
    of_frame: Tensor,
    spread: Tensor,
    clouds: Clouds,
    smoothing: float,
    eps: float,
) -> Tensor:
    """Return the matrix G of the gradient, with all lengths relative to the first spread."""
    moment = clouds.add_up(unit[:, :, None] * grad[:, None, :])
    of_all = moment + of_frame
    torque = of_all - of_all.mT
    with torch.no_grad():
        lengths = [clouds.add_up(rows.square()).sqrt() for rows in (unit, grad)]
        noise = lengths[0][:, :, None] * lengths[1][:, None, :] + of_frame.abs()
        # Where no gradient arrives, nothing is rounded.
        felt = torque.abs() >= ROUNDING * eps * (noise + noise.mT)
    # 1 / gap, smoothed where neighboring spreads are close: eigenvectors turn at that rate.
    gap = spread[:, None, :].square() - spread[:, :, None].square()
    square = gap.square() + smoothing * smoothing
    # A torque that vanishes here, as by a symmetry, may not vanish nearby: its derivative counts
    # unless that magnifies rounding to more than half of the digits.
    tame = gap.abs() <= square * eps**-0.5
    torque = torque - torch.where(felt, 0, torque).detach()
    return torch.where((felt | tame) & (square > 0), torque * gap / safe_divisor(square), 0)


principal_axes_backward = declare(
    BACKWARD_SCHEMA,
    reference=principal_axes_backward_reference,
    fake=like("y"),
    backward=_DIFFERENTIABLE,
    batch=blocks((*_DIFFERENTIABLE, "weight"), offsets=["ptr"]),
)

ND_SCHEMA = (
    "principal_axes_nd(Tensor x, Tensor ptr, Tensor? weight, bool center, int signs, int scale, "
    "float null_tol, float smoothing) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)


def declare_axes(schema: str, gradient: Callable[..., Tensor]) -> Callable[..., Axes]:
    """Declare the op for some dimensions, with its gradient as an op or a reference."""

    def backward(
        *arriving: Tensor, y: Tensor, frame: Tensor, spread: Tensor, size: Tensor, **rest: Any
    ) -> Gradients:
        *grads, _ = arriving  # the last result, the margin, is constant
        return {"x": gradient(*grads, y, frame, spread, size, *rest.values())}

    return declare(
        schema,
        reference=principal_axes_reference,
        fake=_fake,
        backward=backward,
        rest=("ptr", "weight", "center", "scale", "smoothing"),
        results=RESULTS,
        constant_results=("margin",),
        batch=blocks(("x", "weight"), offsets=["ptr"]),
    )


principal_axes_nd = declare_axes(ND_SCHEMA, reference_of("principal_axes_backward"))

principal_axes_op = declare_axes(SCHEMA, principal_axes_backward)
