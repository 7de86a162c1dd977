"""Gradient of coordinates along principal axes, in closed form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.clouds.cloud_sums import UNSCALED, Clouds, or_one, scale_factors
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "principal_axes_backward(Tensor grad_y, Tensor grad_frame, Tensor grad_centroid, "
    "Tensor grad_spread, Tensor grad_scale, Tensor y, Tensor frame, Tensor spread, Tensor scale, "
    "Tensor ptr, Tensor? weight, bool center, int kind, float smoothing) -> Tensor"
)

ROUNDING = 32.0
"""A torque of no more roundings than this is none."""


def principal_axes_backward_reference(*arguments: Any) -> Tensor:
    r"""Readable body of the op, differentiable by PyTorch alone.

    With :math:`\bar y` the gradient of unscaled coordinates, axes turn by the torque
    :math:`T = y^T \bar y - \bar y^T y + F^T \bar F - \bar F^T F`:

    .. math:: \bar x_i = J \bigl[\bar y_i + w_i y_i G + w_i y_i\,\mathrm{diag}(\bar s / s)\bigr]
              F^T, \qquad G_{jk} = T_{jk} \frac{\Delta}{\Delta^2 + \eta^2}, \quad
              \Delta = s_k^2 - s_j^2

    Torques of rounding alone are left out, so that a function of distances has its own gradient
    even where all spreads are equal. Coordinates along null axes are constant.
    """
    *tensors, ptr, weight, center, kind, smoothing = arguments
    dtype = tensors[5].dtype
    grad_y, grad_frame, grad_centroid, grad_spread, grad_scale = (t.double() for t in tensors[:5])
    y, frame, spread, scale = (t.double() for t in tensors[5:])
    clouds = Clouds.of(ptr, weight, len(y))
    segment, total = clouds.segment, or_one(clouds.total)[:, None]
    alive = spread > 0
    first = or_one(spread[:, :1])

    size = or_one(scale)
    grad_y = torch.where(alive[segment] & clouds.counts, grad_y, 0) / size[segment]
    if kind != UNSCALED:
        along = grad_scale - clouds.add_up((grad_y * y).sum(-1, keepdim=True))
        factors = scale_factors(kind, clouds.total, y.shape[1])
        grad_spread = grad_spread + factors * (spread / size) * along

    unit = y * (size / first)[segment]
    turn = _turn(unit, grad_y, (frame.mT @ grad_frame) / first[..., None], spread / first, clouds,
                 smoothing, torch.finfo(dtype).eps)  # fmt: skip
    stretch = torch.where(alive, grad_spread * (first / or_one(spread)), 0)
    matrix = turn + torch.diag_embed(stretch)
    moved = grad_y + clouds.weight[:, None] * torch.einsum("pi,pik->pk", unit, matrix[segment])
    grad = torch.einsum("pk,pik->pi", moved, frame[segment])
    if center:
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
    """G, with all lengths relative to the first spread."""
    moment = clouds.add_up(unit[:, :, None] * grad[:, None, :])
    of_all = moment + of_frame
    torque = of_all - of_all.mT
    with torch.no_grad():
        lengths = [clouds.add_up(rows.square()).sqrt() for rows in (unit, grad)]
        noise = lengths[0][:, :, None] * lengths[1][:, None, :] + of_frame.abs()
        felt = torque.abs() > ROUNDING * eps * (noise + noise.mT)
    gap = spread[:, None, :].square() - spread[:, :, None].square()
    square = gap.square() + smoothing**2
    return torch.where(felt & (square > 0), torque * gap / or_one(square), 0)


def _fake(*arguments: Any) -> Tensor:
    y = arguments[5]
    return y.new_empty(y.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.center, ctx.kind, ctx.smoothing = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, along: Tensor) -> tuple[Tensor | None, ...]:
    """From here on PyTorch differentiates the reference."""
    *saved, ptr, weight = ctx.saved_tensors
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # One argument may depend on another: differentiate with respect to copies of the handles.
        inputs = [x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in saved]
        result = principal_axes_backward_reference(
            *inputs, ptr, weight, ctx.center, ctx.kind, ctx.smoothing
        )
        slopes = torch.autograd.grad(
            result, inputs, along, create_graph=again, materialize_grads=True
        )
    return *slopes, *(None,) * 5


principal_axes_backward = declare(
    SCHEMA,
    reference=principal_axes_backward_reference,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
)
