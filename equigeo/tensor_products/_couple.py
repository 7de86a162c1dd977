"""Coupling of two terms by one table, in either layout.

Letters: channels u and v of the inputs, components i, j and k. In the layout ``mul_ir`` channels
stand before components, in ``ir_mul`` after them; nothing is ever moved from one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from equigeo.reps.irreps import Layout


def axes(layout: Layout, channels: str, components: str) -> str:
    """Name the last axes of features for ``einsum``."""
    return f"...{channels}{components}" if layout == "mul_ir" else f"...{components}{channels}"


def channel_axis(layout: Layout) -> int:
    """Place of the channels of features with one channel axis."""
    return -2 if layout == "mul_ir" else -1


def component_axis(layout: Layout) -> int:
    """Place of the components of features with one channel axis."""
    return -1 if layout == "mul_ir" else -2


def couple_matched(x: Tensor, y: Tensor, table: Tensor, layout: Layout) -> Tensor:
    """Couple each channel of x with the same channel of y: (u, i), (u, j) to (u, k)."""
    x_axes, y_axes, both = axes(layout, "u", "i"), axes(layout, "u", "j"), axes(layout, "u", "ij")
    xy = torch.einsum(f"{x_axes},{y_axes}->{both}", x, y)
    matrix = table.flatten(0, 1)
    return xy.flatten(-2) @ matrix if layout == "mul_ir" else matrix.mT @ xy.flatten(-3, -2)


def couple_pairs(x: Tensor, y: Tensor, table: Tensor, layout: Layout) -> Tensor:
    """Couple each channel of x with each of y: (u, i), (v, j) to (uv, k), v fastest.

    The table meets one input first, so that nothing of size (u, v, i, j) arises; except where an
    input has one channel or one component, and that is the cheapest.
    """
    x_axes, y_axes, z_axes = axes(layout, "u", "i"), axes(layout, "v", "j"), axes(layout, "uv", "k")
    u, v = (value.shape[channel_axis(layout)] for value in (x, y))
    first = pairs_order(u, v, table.shape)[0]
    if first == "x":
        half = axes(layout, "u", "jk")
        z = torch.einsum(f"{x_axes},ijk->{half}", x, table)
        z = torch.einsum(f"{half},{y_axes}->{z_axes}", z, y)
    elif first == "y":
        half = axes(layout, "v", "ik")
        z = torch.einsum(f"{y_axes},ijk->{half}", y, table)
        # What comes last in the product should be what comes last in the layout.
        operands = [(x_axes, x), (half, z)] if layout == "mul_ir" else [(half, z), (x_axes, x)]
        names, values = zip(*operands, strict=True)
        z = torch.einsum(f"{','.join(names)}->{z_axes}", *values)
    else:
        both = axes(layout, "uv", "ij")
        z = torch.einsum(f"{x_axes},{y_axes}->{both}", x, y)
        z = torch.einsum(f"{both},ijk->{z_axes}", z, table)
    return z.flatten(-3, -2) if layout == "mul_ir" else z.flatten(-2)


def pairs_order(u: int, v: int, shape: Sequence[int]) -> tuple[str, int]:
    """Choose what meets a table of this shape first, and count the multiply-adds of that order."""
    i, j, k = shape
    costs = {
        "xy": u * v * i * j * k,
        "y": v * i * j * k + u * v * i * k,
        "x": u * i * j * k + u * v * j * k,
    }
    first = min(costs, key=lambda order: costs[order])
    return first, costs[first]


def couple_pairs_sparse(
    x: Tensor, y: Tensor, entries: tuple[Tensor, Tensor, Tensor], dim_out: int, layout: Layout
) -> Tensor:
    """Couple as :func:`couple_pairs`, touching only entries of the table that are not zero.

    Entries are pairs ``i * dim_y + j``, components ``k``, and values. Components go in front, so
    that an entry adds a whole row of samples and channels to another.
    """
    pair, component, value = entries
    x_axes, y_axes = axes(layout, "u", "i"), axes(layout, "v", "j")
    xy = torch.einsum(f"{x_axes},{y_axes}->ij...uv", x, y).flatten(0, 1)
    terms = xy.index_select(0, pair) * value.view(-1, *[1] * (xy.ndim - 1))
    z = terms.new_zeros(dim_out, *terms.shape[1:]).index_add(0, component, terms)
    z = z.flatten(-2)
    return z.movedim(0, component_axis(layout))
