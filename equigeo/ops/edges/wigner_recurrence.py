"""Matrices of all irreps of a rotation, each from the one of the degree below."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor


def wigner_matrices(rotation: Tensor, lmax: int) -> list[Tensor]:
    """Compute the matrices of the irreps of degrees 0 to ``lmax`` from one rotation matrix.

    By the recurrence of Ivanic and Ruedenberg: polynomials in the entries of the rotation, which
    lose no digit at any direction and have all derivatives.

    Parameters
    ----------
    rotation : Tensor, (..., 3, 3), floating
        Rotations, on components (x, y, z).
    lmax : int
        Largest degree, not negative.

    Returns
    -------
    list of Tensor, (..., 2 l + 1, 2 l + 1)
        In the basis of e3nn; the rotation itself for ``l = 1``.

    References
    ----------
    Ivanic and Ruedenberg, "Rotation matrices for real spherical harmonics", 1996, with the
    correction of 1998.

    Examples
    --------
    >>> half_turn = torch.diag(torch.tensor([-1.0, 1.0, -1.0]))  # about y
    >>> wigner_matrices(half_turn, 2)[2].diagonal().round()
    tensor([ 1., -1.,  1., -1.,  1.])
    """
    found = [torch.ones_like(rotation[..., :1, :1]), rotation]
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
    """Numerators of the recurrence by rows and its denominators by columns; not to be written to.

    Lists, and no tensors, which programs that are being recorded would not take.

    Parameters
    ----------
    l : int
        Degree, at least 2.

    Returns
    -------
    rows : list of list of float
        What row m takes of row n of the products with row i of the rotation, at
        ``[l + m][(1 + i) * (2 * l - 1) + l - 1 + n]``.
    columns : list of float
        Factors of columns.
    """
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
