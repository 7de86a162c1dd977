"""Derivative of spherical harmonics and of their gradient along one direction per point."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.sphere.harmonics_reference import (
    differentiate,
    evaluate,
    join_degrees,
    unit_vectors,
)

SCHEMA = (
    "spherical_harmonics_double_backward(Tensor along, Tensor grad, Tensor x, Tensor table, "
    "int[] degrees, bool normalize) -> (Tensor, Tensor)"
)


def spherical_harmonics_double_backward_reference(
    along: Tensor,
    grad: Tensor,
    x: Tensor,
    table: Tensor,
    degrees: Sequence[int],
    normalize: bool,
) -> tuple[Tensor, Tensor]:
    """Reference implementation of the op, differentiable by PyTorch alone."""
    unit, inverse = unit_vectors(x, normalize)
    first = differentiate(evaluate(unit, table), table)
    second = join_degrees(differentiate(first, table), degrees)
    radial = (unit * along).sum(-1, keepdim=True)
    turn = inverse * (along - unit * radial) if normalize else along  # the derivative of unit
    rates = torch.einsum("pi,ipk->pk", turn, join_degrees(first, degrees))
    change = torch.einsum("pi,ijpk,pk->pj", turn, second, grad)
    if not normalize:
        return rates, change
    slope = torch.einsum("pk,ipk->pi", grad, join_degrees(first, degrees))

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum(-1, keepdim=True)

    # The derivative of inverse * (slope - unit * dot(unit, slope)).
    change = change - turn * dot(unit, slope) - unit * (dot(turn, slope) + dot(unit, change))
    tangential = slope - unit * dot(unit, slope)
    return rates, inverse * (change - inverse * radial * tangential)


spherical_harmonics_double_backward = declare(
    SCHEMA,
    reference=spherical_harmonics_double_backward_reference,
    fake=like("grad", "x"),
    backward=("along", "grad", "x"),  # third derivatives: speed is not critical
    batch=blocks(("along", "grad", "x")),
)
