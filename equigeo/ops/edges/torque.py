"""How much a feature changes along another when it is turned."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from equigeo.ops.edges.so2_table import Term


def torque(left: Tensor, right: Tensor, terms: tuple[Term, ...]) -> Tensor:
    r"""Compute :math:`\tau_k = g \cdot G_k y` for the generators of rotations about x, y and z.

    Parameters
    ----------
    left, right : Tensor, (rows, components)
        g and y, ``ir_mul``.
    terms : tuple of (int, int, bool)
        Of both.

    Returns
    -------
    Tensor, (rows, 3)
        The torque.

    Examples
    --------
    >>> x, y = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[0.0, 1.0, 0.0]])
    >>> torque(y, x, ((1, 1, False),))  # a vector turns along omega x v
    tensor([[0., 0., 1.]])
    """
    total = left.new_zeros(left.shape[0], 3)
    offset = 0
    for mul, l, _ in terms:
        size = mul * (2 * l + 1)
        shape = (2 * l + 1, mul)
        g, y = (x.narrow(1, offset, size).unflatten(1, shape) for x in (left, right))
        total = total + torch.einsum("kij,eij->ek", generators(l).to(g), g @ y.mT)
        offset += size
    return total


@cache
@torch.inference_mode(False)
def generators(l: int) -> Tensor:
    """Generators of rotations about x, y and z, (3, 2 l + 1, 2 l + 1), float64; a shared table.

    Parameters
    ----------
    l : int
        Degree, not negative.

    Returns
    -------
    Tensor, (3, 2 l + 1, 2 l + 1), float64
        Antisymmetric, in the basis of e3nn.
    """
    found = torch.zeros(3, 2 * l + 1, 2 * l + 1, dtype=torch.float64)
    x, y, z = found
    for m in range(l):
        step = -math.sqrt((l * (l + 1) - m * (m + 1)) * (2 if m == 0 else 1)) / 2
        if m == 0:
            x[l, l + 1], z[l - 1, l] = step, step
            continue
        x[l + m, l + m + 1] = x[l - m, l - m - 1] = step
        z[l - m - 1, l + m] = z[l - m, l + m + 1] = step
    for m in range(1, l + 1):
        y[l - m, l + m] = m
    return found - found.mT
