"""Product of a vector with the Jacobian of spherical harmonics, which is never written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.declare import declare
from equigeo.ops.sphere.harmonics_reference import (
    batch_points,
    chosen,
    differentiate,
    direction,
    evaluate,
)
from equigeo.ops.sphere.spherical_harmonics_double_backward import (
    spherical_harmonics_double_backward,
)

SCHEMA = (
    "spherical_harmonics_backward(Tensor grad, Tensor x, Tensor table, int[] degrees, "
    "bool normalize) -> Tensor"
)


def spherical_harmonics_backward_reference(
    grad: Tensor, x: Tensor, table: Tensor, degrees: Sequence[int], normalize: bool
) -> Tensor:
    """Readable body of the op, differentiable by PyTorch alone."""
    unit, inverse = direction(x, normalize)
    slopes = chosen(differentiate(evaluate(unit, table), table), degrees)
    slope = torch.einsum("pk,ipk->pi", grad, slopes)
    if not normalize:
        return slope
    return inverse * (slope - unit * (unit * slope).sum(-1, keepdim=True))


def _fake(
    grad: Tensor, x: Tensor, table: Tensor, degrees: Sequence[int], normalize: bool
) -> Tensor:
    return x.new_empty(x.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.degrees, ctx.normalize = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, along: Tensor) -> tuple[Tensor | None, ...]:
    to_grad, to_x = spherical_harmonics_double_backward(
        along, *ctx.saved_tensors, ctx.degrees, ctx.normalize
    )
    return to_grad, to_x, None, None, None


spherical_harmonics_backward = declare(
    SCHEMA,
    reference=spherical_harmonics_backward_reference,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
    vmap=batch_points,
)
