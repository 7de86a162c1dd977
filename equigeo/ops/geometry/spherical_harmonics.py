"""Real spherical harmonics of points, to any degree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_features, check_table
from equigeo._core.tensors import computes_in_float32
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.tape import Gradients, Tangents

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

    Returns (points, sum of 2 l + 1): degrees one after another, orders ascending.

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


def unit_vectors(
    x: Tensor,  # (points, 3)
    normalize: bool,  # if False, x is returned unchanged
) -> tuple[Tensor, Tensor]:  # (points, 3), (points, 1)
    """Return unit vectors and inverse lengths; zero stays zero, with a finite gradient."""
    if not normalize:
        return x, torch.ones_like(x[:, :1])
    # Squares of very short or long vectors leave the range of the type: scale first. The result
    # does not depend on the scale, so neither does its gradient.
    largest = x.detach().abs().amax(-1, keepdim=True)
    largest = torch.where(largest > 0, largest, 1)
    scaled = x / largest
    square = (scaled * scaled).sum(-1, keepdim=True)
    length = torch.where(square > 0, square, 1).sqrt()
    return scaled / length, 1 / (largest * length)


def evaluate(
    x: Tensor,  # (points, 3), any length
    table: Tensor,  # (6, lmax + 1, lmax + 1)
) -> list[Tensor]:
    """Evaluate the spherical harmonics by degree, (points, 2 l + 1) each."""
    x, y, z = x.unbind(-1)
    square = x * x + y * y + z * z
    up, down, start = table[:3, :, :, None].transpose(1, 2).unbind(0)
    # (z + i x)^m: real parts belong to positive orders, imaginary ones to negative orders
    real, imaginary = [torch.ones_like(x), z], [torch.zeros_like(x), x]
    rows = [start[0, :1] + torch.zeros_like(y)]
    # Terms that vanish are left out: zero times infinity is NaN.
    for l in range(1, len(start)):
        re, im = real[-1], imaginary[-1]
        real.append(z * re - x * im)
        imaginary.append(x * re + z * im)
        row = up[l, :l] * (y * rows[-1])
        if l > 1:
            row = torch.cat([row[:-1] - down[l, : l - 1] * (square * rows[-2]), row[-1:]])
        rows.append(torch.cat([row, start[l, l : l + 1].expand_as(row[:1])]))
    values = []
    for l, row in enumerate(rows):
        azimuth = torch.stack([*imaginary[l:0:-1], *real[: l + 1]])
        values.append((torch.cat([row[1:].flip(0), row]) * azimuth).T)
    return values


def join_degrees(
    parts: Sequence[Tensor],  # (..., 2 l + 1) by degree
    degrees: Sequence[int],
) -> Tensor:
    """Concatenate the requested degrees."""
    return torch.cat([parts[l] for l in degrees], dim=-1)


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


BACKWARD_SCHEMA = (
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


def differentiate(
    values: Sequence[Tensor],  # (..., points, 2 l + 1) by degree
    table: Tensor,  # (6, lmax + 1, lmax + 1)
) -> list[Tensor]:
    """Return the derivatives by x, y and z, (3, ..., points, 2 l + 1) by degree."""
    # The derivatives of degree l combine harmonics of degree l - 1.
    zero = torch.zeros_like(values[0])
    slopes = [torch.stack([zero, zero, zero])]
    for l in range(1, len(values)):
        matrices = _derivative_matrices(l, table)
        slopes.append(torch.stack([values[l - 1] @ matrix for matrix in matrices]))
    return slopes


def _derivative_matrices(l: int, table: Tensor) -> Tensor:
    """Return the derivatives by x, y and z as matrices from degree ``l - 1`` to ``l``."""
    matrices = table.new_zeros(3, 2 * l - 1, 2 * l + 1)
    by_x, by_y, by_z = (matrix.T for matrix in matrices)  # entries by order and order below
    along, raised, lowered = table[3:, :, l].unbind(0)
    below = l - 1  # column of order zero
    m = torch.arange(1 - l, l, device=table.device)
    by_y[l + m, below + m] = along[m.abs()]
    if l > 1:
        by_z[l, below + 1] = by_x[l, below - 1] = raised[0]
    m = torch.arange(1, max(1, l - 1), device=table.device)
    by_z[l + m, below + m + 1] = by_x[l + m, below - m - 1] = raised[m] / 2
    by_z[l - m, below - m - 1] = raised[m] / 2
    by_x[l - m, below + m + 1] = -raised[m] / 2
    m = torch.arange(1, l + 1, device=table.device)
    by_z[l + m, below + m - 1] = by_x[l - m, below + m - 1] = lowered[m] / 2
    m = m[1:]
    by_z[l - m, below - m + 1] = lowered[m] / 2
    by_x[l + m, below - m + 1] = -lowered[m] / 2
    return matrices


def _double_backward(
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


def _forward_of_backward(tangents: Tangents, **arguments: Any) -> Tensor | None:
    change = None
    if "grad" in tangents:  # in which it is linear
        given = arguments | {"grad": tangents["grad"]}
        change = spherical_harmonics_backward(*given.values())
    if "x" in tangents:
        _, turn = spherical_harmonics_double_backward(tangents["x"], *arguments.values())
        change = turn if change is None else change + turn
    return change


DOUBLE_BACKWARD_SCHEMA = (
    "spherical_harmonics_double_backward(Tensor along, Tensor grad, Tensor x, Tensor table, "
    "int[] degrees, bool normalize) -> (Tensor, Tensor)"
)


def spherical_harmonics_double_backward_reference(
    along: Tensor, grad: Tensor, x: Tensor, table: Tensor, degrees: Sequence[int], normalize: bool
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
    DOUBLE_BACKWARD_SCHEMA,
    reference=spherical_harmonics_double_backward_reference,
    fake=like("grad", "x"),
    backward=("along", "grad", "x"),  # third derivatives: speed is not critical
    batch=blocks(("along", "grad", "x")),
)

spherical_harmonics_backward = declare(
    BACKWARD_SCHEMA,
    reference=spherical_harmonics_backward_reference,
    fake=like("x"),
    backward=_double_backward,
    forward=_forward_of_backward,
    batch=blocks(("grad", "x")),
)

spherical_harmonics_op = declare(
    SCHEMA,
    reference=spherical_harmonics_reference,
    fake=_fake,
    backward=_backward,
    forward=_forward,
    batch=blocks(["x"]),
)
