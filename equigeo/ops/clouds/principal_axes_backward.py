"""Gradient of coordinates along principal axes, in closed form."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.ops.clouds.axis_rules import ScaleRule
from equigeo.ops.clouds.cloud_sums import Clouds, safe_divisor, scale_factors
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like

SCHEMA = (
    "principal_axes_backward(Tensor grad_y, Tensor grad_frame, Tensor grad_centroid, "
    "Tensor grad_spread, Tensor grad_scale, Tensor y, Tensor frame, Tensor spread, Tensor scale, "
    "Tensor ptr, Tensor? weight, bool center, int kind, float smoothing) -> Tensor"
)

ROUNDING = 32.0
"""A torque of no more roundings than this is none.

Each of the four factors of a torque carries a few; a power of two above their sum, and far below
any torque that turns axes on purpose.
"""


def principal_axes_backward_reference(  # noqa: PLR0913 - those of the op
    grad_y: Tensor,
    grad_frame: Tensor,
    grad_centroid: Tensor,
    grad_spread: Tensor,
    grad_scale: Tensor,
    y: Tensor,
    frame: Tensor,
    spread: Tensor,
    scale: Tensor,
    ptr: Tensor,
    weight: Tensor | None,
    center: bool,
    kind: int,
    smoothing: float,
) -> Tensor:
    """Reference implementation of the op, differentiable by PyTorch alone."""
    dtype = y.dtype
    gradients = grad_y, grad_frame, grad_centroid, grad_spread, grad_scale
    grad_y, grad_frame, grad_centroid, grad_spread, grad_scale = (g.double() for g in gradients)
    y, frame, spread, scale = (axes.double() for axes in (y, frame, spread, scale))
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
    # 1 / gap, smoothed where neighbouring spreads are close: eigenvectors turn at that rate.
    gap = spread[:, None, :].square() - spread[:, :, None].square()
    square = gap.square() + smoothing * smoothing
    # A torque that vanishes here, as by a symmetry, may not vanish nearby: its derivative counts
    # unless that magnifies rounding to more than half of the digits.
    tame = gap.abs() <= square * eps**-0.5
    torque = torque - torch.where(felt, 0, torque).detach()
    return torch.where((felt | tame) & (square > 0), torque * gap / safe_divisor(square), 0)


_GRADIENTS = ("grad_y", "grad_frame", "grad_centroid", "grad_spread", "grad_scale")
_DIFFERENTIABLE = (*_GRADIENTS, "y", "frame", "spread", "scale")

principal_axes_backward = declare(
    SCHEMA,
    reference=principal_axes_backward_reference,
    fake=like("y"),
    backward=_DIFFERENTIABLE,
    batch=blocks((*_DIFFERENTIABLE, "weight"), offsets=["ptr"]),
)
