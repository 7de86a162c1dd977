"""Product of a vector with the Jacobian of spherical harmonics, which is never stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import Gradients, Tangents, declare, like
from equigeo.ops.sphere.harmonics_reference import (
    differentiate,
    evaluate,
    join_degrees,
    unit_vectors,
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
    """Reference implementation of the op, differentiable by PyTorch alone."""
    unit, inverse = unit_vectors(x, normalize)
    slopes = join_degrees(differentiate(evaluate(unit, table), table), degrees)
    slope = torch.einsum("pk,ipk->pi", grad, slopes)
    if not normalize:
        return slope
    # Only the part across the vector turns it: the length is divided out.
    return inverse * (slope - unit * (unit * slope).sum(-1, keepdim=True))


def _backward(
    along: Tensor,
    *,
    grad: Tensor,
    x: Tensor,
    table: Tensor,
    degrees: Sequence[int],
    normalize: bool,
) -> Gradients:
    # The op is the gradient of <grad, Y(x)> by x; along a direction of x its derivatives are those
    # of the values and of itself.
    to_grad, to_x = spherical_harmonics_double_backward(along, grad, x, table, degrees, normalize)
    return {"grad": to_grad, "x": to_x}


def _forward(tangents: Tangents, **arguments: Any) -> Tensor | None:
    change = None
    if "grad" in tangents:  # in which it is linear
        given = arguments | {"grad": tangents["grad"]}
        change = spherical_harmonics_backward(*given.values())
    if "x" in tangents:
        _, turn = spherical_harmonics_double_backward(tangents["x"], *arguments.values())
        change = turn if change is None else change + turn
    return change


spherical_harmonics_backward = declare(
    SCHEMA,
    reference=spherical_harmonics_backward_reference,
    fake=like("x"),
    backward=_backward,
    forward=_forward,
    batch=blocks(("grad", "x")),
)
