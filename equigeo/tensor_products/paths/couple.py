"""Coupling of two terms by one table, in either layout."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from equigeo.reps.irreps import Layout


# Channels u and v of the inputs, components i, j and k: (u, i) in the layout mul_ir, (i, u) in
# ir_mul; data are never moved from one to the other.
def channel_axis(layout: Layout) -> int:
    """Return the axis of the channels of features with one channel axis."""
    return -2 if layout == "mul_ir" else -1


def component_axis(layout: Layout) -> int:
    """Return the axis of the components of features with one channel axis."""
    return -1 if layout == "mul_ir" else -2


def contract(x: Tensor, matrix: Tensor, layout: Layout) -> Tensor:
    """Multiply the components of x, which has one channel axis, by a matrix (i, k)."""
    return x @ matrix if layout == "mul_ir" else matrix.mT @ x


def mix_channels(x: Tensor, matrix: Tensor, layout: Layout) -> Tensor:
    """Multiply the channels of x by a matrix (u, w)."""
    return matrix.mT @ x if layout == "mul_ir" else x @ matrix


def couple_matched(x: Tensor, y: Tensor, table: Tensor, layout: Layout) -> Tensor:
    """Couple each channel of x with the same channel of y: (u, i), (u, j) to (u, k)."""
    if layout == "mul_ir":
        xy = (x.unsqueeze(-1) * y.unsqueeze(-2)).flatten(-2)
    else:
        xy = (x.unsqueeze(-2) * y.unsqueeze(-3)).flatten(-3, -2)
    return contract(xy, table.flatten(0, 1), layout)


def couple_pairs(x: Tensor, y: Tensor, table: Tensor, layout: Layout) -> Tensor:
    """Couple each channel of x with each of y: (u, i), (v, j) to (uv, k), v fastest."""
    # The table multiplies one input first, which avoids an intermediate of size (u, v, i, j),
    # unless an input has one channel or one component and the outer product is cheapest.
    # Both orders have the same result; they differ in the size of the intermediate tensor.
    u, v = (value.shape[channel_axis(layout)] for value in (x, y))
    first = pairs_order(u, v, table.shape)[0]
    if first == "y":
        z = _couple_second_first(x, y, table, layout)
    elif first == "x":
        # By symmetry, with the axes of the coupling exchanged.
        z = _couple_second_first(y, x, table.transpose(0, 1), layout)
        z = z.transpose(-3, -2) if layout == "mul_ir" else z.mT
    else:
        return contract(outer(x, y), table.flatten(0, 1), layout)
    return z.flatten(-3, -2) if layout == "mul_ir" else z.flatten(-2)


def outer(x: Tensor, y: Tensor) -> Tensor:
    """Multiply all channels and all components: (u, i), (v, j) to (uv, ij), in any layout."""
    return (x[..., :, None, :, None] * y[..., None, :, None, :]).flatten(-4, -3).flatten(-2)


def _couple_second_first(x: Tensor, y: Tensor, table: Tensor, layout: Layout) -> Tensor:
    """Couple to (u, v, k) or (k, u, v) by matrices (i, vk) or (i, kv) computed from y."""
    i, _, k = table.shape
    half = contract(y, table.transpose(0, 1).flatten(1), layout)
    if layout == "mul_ir":
        half = half.unflatten(-1, (i, k)).transpose(-3, -2).flatten(-2)
        return contract(x, half, layout).unflatten(-1, (-1, k))
    half = half.unflatten(-2, (i, k)).flatten(-2)
    return contract(x, half, layout).unflatten(-2, (k, -1)).mT


def pairs_order(u: int, v: int, shape: Sequence[int]) -> tuple[str, int]:
    """Return the input that multiplies the table first, and the multiply-adds of that order."""
    i, j, k = shape
    costs = {
        # All pairs of channels and of components, then the table.
        "xy": u * v * i * j * k,
        # The table with y, (i, v, k), and then x.
        "y": v * i * j * k + u * v * i * k,
        # The table with x, (j, u, k), and then y.
        "x": u * i * j * k + u * v * j * k,
    }
    first = min(costs, key=lambda order: costs[order])
    return first, costs[first]
