"""Readable bodies of the products in which channels meet in pairs.

They are one form, linear in the inputs, the weights and the output; how channels meet is in the
letters of an Einstein sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.ops.connection_table import (
    DenseConnection,
    add_segment,
    dense_connections,
)


@dataclass(frozen=True)
class Letters:
    """Channels of the operands of a path: e is the row, components i, j and k follow."""

    x: str
    y: str
    out: str
    weight: str


MATCHED = Letters("eui", "euj", "euk", "eu")
PAIRS = Letters("eui", "evj", "euvk", "euv")
MIXED = Letters("eui", "evj", "ewk", "euvw")

Meeting = Callable[[DenseConnection], Letters]


def copywise(path: DenseConnection) -> Letters:
    """Copies meet one by one, or each meets all of the other input."""
    mul, mul2, mul3 = path.muls
    return PAIRS if mul3 == mul * mul2 else MATCHED


def fully_connected(path: DenseConnection) -> Letters:
    """All channels meet, and are mixed."""
    return MIXED


def connected_product(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    table: tuple[Tensor, Tensor, Tensor],
    dims: tuple[int, bool],
    meet: Meeting,
) -> Tensor:
    """Add up all paths.

    Parameters
    ----------
    x, y, weight : Tensor
        As the op takes them.
    table : tuple of Tensor
        ``paths, entries, values``.
    dims : tuple of int and bool
        Length of the output's rows, and the layout.
    meet : callable
        How channels of a path meet.

    Returns
    -------
    Tensor, (rows, dim_out)
        Zero where no path leads.
    """
    out = x.new_zeros(len(x), dims[0])
    for path in dense_connections(*table, dims[1]):
        form = meet(path)
        places = Places.of(path, form)
        operands = [path.x(x), path.y(y), path.coefficients, places.weights(weight, x)]
        z = torch.einsum(f"{form.x},{form.y},ijk,{form.weight}->{form.out}", *operands)
        out = add_segment(out, path.out_index, z)
    return out


def connected_product_backward(
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    table: tuple[Tensor, Tensor, Tensor],
    ir_mul: bool,
    meet: Meeting,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of :func:`connected_product`; that of the weights is empty where there are none."""
    to_x, to_y = torch.zeros_like(x), torch.zeros_like(y)
    to_weight = x.new_zeros(0, 0) if weight is None else torch.zeros_like(weight)
    for path in dense_connections(*table, ir_mul):
        form = meet(path)
        places = Places.of(path, form)
        w, c = places.weights(weight, x), path.coefficients
        g, xs, ys = path.out(grad).unflatten(1, places.out), path.x(x), path.y(y)
        shared = f"{form.out},{{}},ijk,{{}}->{{}}"
        to_xs = torch.einsum(shared.format(form.y, form.weight, form.x), g, ys, c, w)
        to_ys = torch.einsum(shared.format(form.x, form.weight, form.y), g, xs, c, w)
        to_x = add_segment(to_x, path.x_index, to_xs)
        to_y = add_segment(to_y, path.y_index, to_ys)
        if weight is not None and path.weight is not None:
            to_w = torch.einsum(shared.format(form.x, form.y, form.weight), g, xs, c, ys)
            to_weight = add_segment(to_weight, places.weight_index(x), to_w)
    return to_x, to_y, to_weight


@dataclass(frozen=True)
class Places:
    """Shapes of the channels of a path's output and weights, and where those begin."""

    out: tuple[int, ...]
    weight: tuple[int, ...]
    first: int | None

    @classmethod
    def of(cls, path: DenseConnection, form: Letters) -> Places:
        """Read the letters of a path."""
        sizes = dict(zip("uvw", path.muls, strict=True))
        out = tuple(sizes[letter] for letter in form.out[1:-1])
        return cls(out, tuple(sizes[letter] for letter in form.weight[1:]), path.weight)

    def weight_index(self, like: Tensor) -> Tensor:
        """Positions in a row of weights."""
        first = self.first or 0
        stop = first + torch.Size(self.weight).numel()
        return torch.arange(first, stop, device=like.device).view(self.weight)

    def weights(self, row: Tensor | None, like: Tensor) -> Tensor:
        """Weights of all rows; ones where there are none."""
        if row is None or self.first is None:
            return like.new_ones(len(like), *self.weight)
        return row[:, self.weight_index(like)]
