"""Torque of two features: the derivative of their product under rotations of one."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from equigeo.ops.edges.so2_table import Term


def torque(
    left: Tensor,  # (rows, components), ir_mul: g
    right: Tensor,  # (rows, components), ir_mul: y
    terms: tuple[Term, ...],  # layout of both
) -> Tensor:  # (rows, 3)
    """Return the torque g . G_k y for the generators G_k of rotations about x, y and z."""
    total = left.new_zeros(left.shape[0], 3)
    offset = 0
    for mul, l, _ in terms:
        size = mul * (2 * l + 1)
        shape = (2 * l + 1, mul)
        g, y = (x.narrow(1, offset, size).unflatten(1, shape) for x in (left, right))
        total = total + torch.einsum("kij,eij->ek", g.new_tensor(_entries(l)), g @ y.mT)
        offset += size
    return total


@cache
def _entries(l: int) -> list[list[list[float]]]:
    """Return the generators in the e3nn basis as nested lists, constants of traced programs."""
    found = [[[0.0] * (2 * l + 1) for _ in range(2 * l + 1)] for _ in range(3)]
    x, y, z = range(3)

    def put(axis: int, row: int, column: int, value: float) -> None:
        found[axis][row][column], found[axis][column][row] = value, -value

    for m in range(l):
        step = -math.sqrt((l * (l + 1) - m * (m + 1)) * (2 if m == 0 else 1)) / 2
        if m == 0:
            put(x, l, l + 1, step)
            put(z, l - 1, l, step)
            continue
        put(x, l + m, l + m + 1, step)
        put(x, l - m, l - m - 1, step)
        put(z, l - m - 1, l + m, step)
        put(z, l - m, l + m + 1, step)
    for m in range(1, l + 1):
        put(y, l - m, l + m, float(m))
    return found
