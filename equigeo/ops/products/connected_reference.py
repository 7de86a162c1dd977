"""Readable bodies of the products in which channels meet in pairs.

They are one form, linear in the inputs, the weights and the output; how channels meet is in the
letters of an Einstein sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.ops.connection_table import Connection, Segment, read_connections


@dataclass(frozen=True)
class Letters:
    """Axes of the operands of a path: rows e, channels u, v and w, components i, j and k."""

    x: str
    y: str
    out: str
    weight: str


MATCHED = Letters("eui", "euj", "euk", "eu")
PAIRS = Letters("eui", "evj", "euvk", "euv")
MIXED = Letters("eui", "evj", "ewk", "euvw")

Meeting = Callable[[Connection], Letters]


def copywise(path: Connection) -> Letters:
    """Copies meet one by one, or each meets all of the other input."""
    return PAIRS if path.out.mul == path.x.mul * path.y.mul else MATCHED


def fully_connected(path: Connection) -> Letters:
    """All channels meet, and are mixed."""
    return MIXED


def connected_product(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    table: tuple[Tensor, Tensor, Tensor],
    dim_out: int,
    meet: Meeting,
) -> Tensor:
    """Add up all paths.

    Parameters
    ----------
    x, y, weight : Tensor
        As the op takes them.
    table : tuple of Tensor
        ``paths, entries, values``.
    dim_out : int
        Length of the output's rows.
    meet : callable
        How channels of a path meet.

    Returns
    -------
    Tensor, (rows, dim_out)
        Zero where no path leads.
    """
    out = x.new_zeros(len(x), dim_out)
    for path in read_connections(*table):
        form = meet(path)
        w = _weights(weight, path, form, x)
        operands = [_read(x, path.x), _read(y, path.y), path.coefficients, w]
        z = torch.einsum(f"{form.x},{form.y},ijk,{form.weight}->{form.out}", *operands)
        out = _add(out, path.out, z)
    return out


def connected_product_backward(
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    table: tuple[Tensor, Tensor, Tensor],
    meet: Meeting,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of :func:`connected_product`; that of the weights is empty where there are none."""
    to_x, to_y = torch.zeros_like(x), torch.zeros_like(y)
    to_weight = x.new_zeros(0, 0) if weight is None else torch.zeros_like(weight)
    for path in read_connections(*table):
        form = meet(path)
        w, c = _weights(weight, path, form, x), path.coefficients
        g = _read(grad, path.out).unflatten(1, _sizes(path, form.out[1:-1]))
        xs, ys = _read(x, path.x), _read(y, path.y)
        to_xs = torch.einsum(f"{form.out},{form.y},ijk,{form.weight}->{form.x}", g, ys, c, w)
        to_ys = torch.einsum(f"{form.out},{form.x},ijk,{form.weight}->{form.y}", g, xs, c, w)
        to_x, to_y = _add(to_x, path.x, to_xs), _add(to_y, path.y, to_ys)
        if weight is not None and path.weight is not None:
            to_w = torch.einsum(f"{form.out},{form.x},ijk,{form.y}->{form.weight}", g, xs, c, ys)
            to_weight = _add(to_weight, _weight_segment(path, form), to_w)
    return to_x, to_y, to_weight


def _read(row: Tensor, segment: Segment) -> Tensor:
    """Segment of every row, (rows, mul, d)."""
    return row[:, segment.index().to(row.device)]


def _add(row: Tensor, segment: Segment, values: Tensor) -> Tensor:
    """Add values to a segment of every row."""
    return row.index_add(1, segment.index().flatten().to(row.device), values.flatten(1))


def _sizes(path: Connection, letters: str) -> tuple[int, ...]:
    sizes = {"u": path.x.mul, "v": path.y.mul, "w": path.out.mul}
    return tuple(sizes[letter] for letter in letters)


def _weight_segment(path: Connection, form: Letters) -> Segment:
    shape = torch.Size(_sizes(path, form.weight[1:]))
    return Segment.block(path.weight or 0, shape.numel(), 1)


def _weights(row: Tensor | None, path: Connection, form: Letters, like: Tensor) -> Tensor:
    """Weights of every row, or ones where there are none."""
    shape = _sizes(path, form.weight[1:])
    if row is None or path.weight is None:
        return like.new_ones(len(like), *shape)
    return _read(row, _weight_segment(path, form)).view(-1, *shape)
