"""Principal axes in more than three dimensions, without a kernel."""

from __future__ import annotations

from equigeo.ops.clouds.principal_axes_backward import principal_axes_backward_reference
from equigeo.ops.clouds.principal_axes_reference import (
    RESULTS,
    backward_by,
    batch_clouds,
    fake_axes,
    principal_axes_reference,
)
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "principal_axes_nd(Tensor x, Tensor ptr, Tensor? weight, bool center, int signs, int scale, "
    "float null_tol, float smoothing) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)


principal_axes_nd = declare(
    SCHEMA,
    reference=principal_axes_reference,
    fake=fake_axes,
    backward=backward_by(principal_axes_backward_reference),
    results=RESULTS,
    constant_results=("margin",),
    batch=batch_clouds,
)
