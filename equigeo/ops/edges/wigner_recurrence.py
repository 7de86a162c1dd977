"""Matrices of all irreps of a rotation, each from the one of the degree below."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor


def wigner_matrices(
    rotation: Tensor,  # (..., 3, 3)
    lmax: int,
) -> list[Tensor]:  # (..., 2 l + 1, 2 l + 1) per degree
    """Return the Wigner matrices of degrees 0 to lmax of a rotation, in the e3nn basis."""
    found = [torch.ones_like(rotation[..., :1, :1]), rotation]
    # Ivanic and Ruedenberg, "Rotation matrices for real spherical harmonics", 1996, with the
    # correction of 1998: polynomials in the entries of the rotation, accurate and differentiable
    # everywhere.
    for l in range(2, lmax + 1):
        found.append(_next_degree(rotation, found[-1], l))
    return found[: lmax + 1]


def _next_degree(rotation: Tensor, below: Tensor, l: int) -> Tensor:
    left, middle, right = rotation[..., None].unbind(-2)  # (..., 3, 1) of columns -1, 0, 1
    low, high = below[..., None, :, 0], below[..., None, :, -1]
    first = right * low + left * high
    last = right * high - left * low
    inner = middle[..., None] * below[..., None, :, :]
    products = torch.cat([first[..., None], inner, last[..., None]], dim=-1).flatten(-3, -2)
    rows, columns = (products.new_tensor(factors) for factors in recurrence_factors(l))
    return (rows @ products) * columns


@cache
def recurrence_factors(l: int) -> tuple[list[list[float]], list[float]]:
    """Return row numerators and column factors of the recurrence as cached lists; do not modify."""
    # rows[l + m][(1 + i) (2 l - 1) + l - 1 + n] is the factor of row n of the products with row i
    # of the rotation in row m of the result. Traced programs do not accept cached tensors.
    rows = [[0.0] * (3 * (2 * l - 1)) for _ in range(2 * l + 1)]

    def add(m: int, i: int, n: int, factor: float) -> None:
        if factor:
            rows[l + m][(1 + i) * (2 * l - 1) + l - 1 + n] += factor

    for m in range(-l, l + 1):
        k = abs(m)
        add(m, 0, m, math.sqrt((l + m) * (l - m)))
        v = 0.5 * math.sqrt((2 if m == 0 else 1) * (l + k - 1) * (l + k)) * (-1 if m == 0 else 1)
        w = -0.5 * math.sqrt((l - k - 1) * (l - k)) if 0 < k < l else 0.0
        if m == 0:
            add(0, 1, 1, v)
            add(0, -1, -1, v)
        elif m > 0:
            add(m, 1, m - 1, v * (math.sqrt(2) if m == 1 else 1))
            add(m, -1, 1 - m, 0.0 if m == 1 else -v)
            add(m, 1, m + 1, w)
            add(m, -1, -m - 1, w)
        else:
            add(m, 1, m + 1, 0.0 if m == -1 else v)
            add(m, -1, -m - 1, v * (math.sqrt(2) if m == -1 else 1))
            add(m, 1, m - 1, w)
            add(m, -1, 1 - m, -w)
    columns = [1 / math.sqrt((l + m) * (l - m)) for m in range(1 - l, l)]
    edge = 1 / math.sqrt(2 * l * (2 * l - 1))
    return rows, [edge, *columns, edge]
