"""Real spherical harmonics of points, to any degree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.checks import check_device, check_features, check_table
from equigeo.ops.runtime.declare import Gradients, Tangents, declare
from equigeo.ops.sphere.harmonics_reference import (
    evaluate,
    join_degrees,
    unit_vectors,
)
from equigeo.ops.sphere.spherical_harmonics_backward import spherical_harmonics_backward
from equigeo.ops.sphere.spherical_harmonics_double_backward import (
    spherical_harmonics_double_backward,
)

SCHEMA = "spherical_harmonics(Tensor x, Tensor table, int[] degrees, bool normalize) -> Tensor"


@computes_in_float32
def spherical_harmonics(
    x: Tensor, table: Tensor, degrees: Sequence[int], normalize: bool
) -> Tensor:
    r"""Evaluate spherical harmonics as polynomials of each point.

    .. math:: Y_l^{\pm m}(x, y, z) = Q_l^m(y, r^2)\,
              \genfrac{}{}{0pt}{}{\mathrm{Re}}{\mathrm{Im}} (z + i x)^m

    by a recursion over degrees without angles and without singular poles,

    .. math:: Q_l^m = \mathrm{up}\, y\, Q_{l-1}^m - \mathrm{down}\, r^2 Q_{l-2}^m, \qquad
              Q_m^m = \mathrm{start}

    Derivatives are harmonics one degree below. Gradients of the first two orders take no more
    memory than their results. Returns (points, sum of 2 l + 1): degrees one after another, orders
    ascending.

    Parameters
    ----------
    x : Tensor, (points, 3)
        Vectors.
    table : Tensor, (6, lmax + 1, lmax + 1), dtype in which ``x`` is computed
        By order and degree, the coefficients up, down and start, and those of derivatives: of
        :math:`Y_{l-1}^m` in :math:`\partial_y Y_l^m`; and of :math:`Y_{l-1}^{m \pm 1}` in
        :math:`\partial_z Y_l^m \mp \partial_x Y_l^{-m}`. They set the normalization. The last
        follow from the others: kernels compute them. No gradient flows to the table.
    degrees : sequence of int
        Requested degrees, ascending.
    normalize : bool
        Whether to divide vectors by their length. The zero vector stays zero; derivatives there
        are those of the polynomials.

    Examples
    --------
    >>> import torch
    >>> table = torch.zeros(6, 1, 1)
    >>> table[2] = 1.0  # the constant function
    >>> spherical_harmonics(torch.zeros(2, 3), table, [0], True).tolist()
    [[1.0], [1.0]]
    """
    check_features("x", x, ("points", "components"))
    check_features("table", table, ("coefficients", "orders", "degrees"))
    if x.shape[1] != 3:
        raise ValueError(f"x must be (points, 3), got shape {tuple(x.shape)}")
    if table.shape[0] != 6 or table.shape[1] != table.shape[2]:
        raise ValueError(f"table must be (6, lmax + 1, lmax + 1), got shape {tuple(table.shape)}")
    check_table("table", table, x)
    degrees, lmax = list(degrees), table.shape[2] - 1
    if not degrees or degrees != [l for l in sorted(set(degrees)) if 0 <= l <= lmax]:
        raise ValueError(f"degrees must ascend from 0 or more to {lmax} or less, got {degrees}")
    check_device(x=x, table=table)
    return spherical_harmonics_op(x, table, degrees, normalize)


def spherical_harmonics_reference(
    x: Tensor, table: Tensor, degrees: Sequence[int], normalize: bool
) -> Tensor:
    """Reference implementation of :func:`spherical_harmonics`, differentiable by PyTorch alone."""
    unit, _ = unit_vectors(x, normalize)
    lmax = max(degrees)
    return join_degrees(evaluate(unit, table[:, : lmax + 1, : lmax + 1]), degrees).contiguous()


def _fake(x: Tensor, table: Tensor, degrees: Sequence[int]) -> Tensor:
    lmax = table.shape[-1] - 1
    if any(not 0 <= l <= lmax for l in degrees):  # a sum of such degrees may be no size
        raise ValueError(f"degrees must be from 0 to {lmax}, got {list(degrees[:8])}")
    return x.new_empty(x.shape[0], sum(2 * l + 1 for l in degrees))


def _backward(
    grad: Tensor, *, x: Tensor, table: Tensor, degrees: Sequence[int], normalize: bool
) -> Gradients:
    return {"x": spherical_harmonics_backward(grad, x, table, degrees, normalize)}


def _forward(tangents: Tangents, *, x: Tensor, **rest: Any) -> Tensor:
    no_grad = x.new_zeros(x.shape[0], sum(2 * l + 1 for l in rest["degrees"]))
    rates, _ = spherical_harmonics_double_backward(tangents["x"], no_grad, x, *rest.values())
    return rates


spherical_harmonics_op = declare(
    SCHEMA,
    reference=spherical_harmonics_reference,
    fake=_fake,
    backward=_backward,
    forward=_forward,
    batch=blocks(["x"]),
)
