"""Invariant tensors that couple three irreps of SO(3)."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import torch
from torch import Tensor

from equigeo._kept import kept
from equigeo.reps.real_basis import complex_from_real


def wigner_3j(l1: int, l2: int, l3: int) -> Tensor:
    r"""Return the coupling tensor of three degrees in the real basis and with the signs of e3nn.

    .. math:: \sum_{ijk} C_{ijk} D^{l_1}_{ip} D^{l_2}_{jq} D^{l_3}_{kr} = C_{pqr}

    Computed from Clebsch-Gordan coefficients in exact integer arithmetic (Varshalovich, Moskalev,
    Khersonskii, "Quantum Theory of Angular Momentum", 1988, chapter 8), so that entries are
    accurate at any degree (e3nn stops at 11). Of shape (2 l1 + 1, 2 l2 + 1, 2 l3 + 1), float64,
    with unit Frobenius norm; zero if the degrees violate the triangle inequality.

    Examples
    --------
    >>> x, y = torch.tensor([1.0, 0, 0]).double(), torch.tensor([0, 1.0, 0]).double()
    >>> (torch.einsum("ijk,i,j->k", wigner_3j(1, 1, 1), x, y) * 6**0.5).round(decimals=12)  # cross
    tensor([0., 0., 1.], dtype=torch.float64)
    """
    return wigner_3j_table(l1, l2, l3).clone()


@kept
def wigner_3j_table(l1: int, l2: int, l3: int) -> Tensor:  # (2 l1 + 1, 2 l2 + 1, 2 l3 + 1), float64
    """Return the cached table behind :func:`wigner_3j`; do not modify."""
    if min(l1, l2, l3) < 0:
        raise ValueError(f"degrees must not be negative, got {(l1, l2, l3)}")
    if not abs(l1 - l2) <= l3 <= l1 + l2:
        return torch.zeros(2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1, dtype=torch.float64)
    # Indices (i, k, n) are complex, (j, l, m) real; two at a time, for the cost grows fast.
    table = np.tensordot(_clebsch_gordan(l1, l2, l3), complex_from_real(l3).conj(), (2, 0))
    table = np.einsum("ikm,kl->ilm", table, complex_from_real(l2), optimize=True)
    table = np.einsum("ilm,ij->jlm", table, complex_from_real(l1), optimize=True).real
    table = np.where(np.abs(table) < 1e-14, 0.0, table)  # exact zeros leave rounding behind
    return torch.from_numpy(np.ascontiguousarray(table / math.sqrt(2 * l3 + 1)))


def _clebsch_gordan(l1: int, l2: int, l3: int) -> np.ndarray:
    """Return Condon-Shortley coefficients by components, as roots of exact rationals."""
    fact = [math.factorial(n) for n in range(l1 + l2 + l3 + 2)]
    n1, n2, n3 = l1 + l2 - l3, l1 - l2 + l3, l2 + l3 - l1
    scale = fact[-1] * fact[n1] * fact[n2] * fact[n3]
    table = np.zeros((2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1))
    for m1, m2 in product(range(-l1, l1 + 1), range(-l2, l2 + 1)):
        m3 = m1 + m2
        if abs(m3) > l3:
            continue
        # van der Waerden's single sum, its factorials paired into binomial coefficients
        low = max(0, l1 - m1 - n2, l2 + m2 - n3)
        terms = (
            (-1) ** k * math.comb(n1, k) * math.comb(n2, l1 - m1 - k) * math.comb(n3, l2 + m2 - k)
            for k in range(low, min(n1, l1 - m1, l2 + m2) + 1)
        )
        total = sum(terms)
        weight = math.prod(
            fact[l + s * m] for l, m in ((l1, m1), (l2, m2), (l3, m3)) for s in (1, -1)
        )
        square = (2 * l3 + 1) * total * total * weight / scale  # integers: rounded once
        table[l1 + m1, l2 + m2, l3 + m3] = math.copysign(math.sqrt(square), total)
    return table
