"""Principal axes in spaces of more than three dimensions, for which no kernel is written."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from equigeo.ops.clouds.principal_axes_backward import principal_axes_backward_reference
from equigeo.ops.clouds.principal_axes_reference import (
    fake_axes,
    keep_axes,
    principal_axes_reference,
)
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "principal_axes_nd(Tensor x, Tensor ptr, Tensor? weight, bool center, int signs, int scale, "
    "float null_tol, float smoothing) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)


def _backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    constants = ctx.center, ctx.scale, ctx.smoothing
    grad = principal_axes_backward_reference(*grads[:-1], *ctx.saved_tensors, *constants)
    return (grad, *(None,) * 7)


principal_axes_nd = declare(
    SCHEMA,
    reference=principal_axes_reference,
    fake=fake_axes,
    setup_context=keep_axes,
    backward=_backward,
)
