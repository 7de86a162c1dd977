"""Wigner D matrices and 3j symbols of SO(3)."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import torch
from torch import Tensor

from equigeo._core.cache import kept
from equigeo.groups import matrix_exp, rotation_log


def wigner_d(l: int, rotation: Tensor) -> Tensor:
    r"""Return matrices of the irrep of SO(3) of degree ``l``, in the basis of e3nn.

    .. math:: D^l(R) = \exp(\omega_x G_x + \omega_y G_y + \omega_z G_z)

    with the axis-angle vector :math:`\omega` of ``R``: exact at half turns, at the identity and at
    the poles of Euler angles. Computed in float64. See Varshalovich, Moskalev, Khersonskii,
    "Quantum Theory of Angular Momentum", 1988, chapter 4.

    Parameters
    ----------
    l : int
        Degree, not negative.
    rotation : Tensor, (..., 3, 3), floating
        Matrices that are no rotations raise ``ValueError``.

    Returns
    -------
    Tensor, (..., 2 l + 1, 2 l + 1), dtype of ``rotation``
        Orthogonal, equal to ``rotation`` for ``l = 1``.

    Examples
    --------
    >>> import torch
    >>> quarter = torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    >>> bool(torch.allclose(wigner_d(1, quarter), quarter, atol=1e-6))
    True
    """
    if rotation.shape[-2:] != (3, 3):
        raise ValueError(f"rotation must be (..., 3, 3), got {tuple(rotation.shape)}")
    generators = so3_generators_table(l).to(rotation.device)
    omega = rotation_log(rotation.double())
    # the algebra is exponentiated in one step, where Euler angles would multiply three matrices
    exponent = (omega[..., None, None] * generators).sum(-3)
    return matrix_exp(exponent).to(rotation.dtype)


@kept
def so3_generators_table(l: int) -> Tensor:  # (3, 2 l + 1, 2 l + 1), float64
    """Return rotations about x, y and z in the irrep of degree ``l``; do not modify."""
    if l < 0:
        raise ValueError(f"l must not be negative, got {l}")
    # ladder operators in the basis of orders m about y, then the change to real components
    m = np.arange(-l, l + 1)
    step = np.sqrt(l * (l + 1) - m[:-1] * m[1:])
    raising, lowering = np.diag(-step, -1), np.diag(step, 1)
    spin = np.stack([0.5 * (raising + lowering), np.diag(1j * m), -0.5j * (raising - lowering)])
    change = complex_from_real(l)
    real = (change.conj().T @ spin @ change).real
    # antisymmetric up to rounding, now to the last bit
    return torch.from_numpy(0.5 * (real - real.swapaxes(1, 2)))


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


def complex_from_real(l: int) -> np.ndarray:  # (2 l + 1, 2 l + 1), complex128
    """Return the unitary map from the real e3nn basis to eigenvectors of rotations about y."""
    # columns are ordered m = -l ... l, negative orders being sines and positive ones cosines
    q = np.zeros((2 * l + 1, 2 * l + 1), dtype=np.complex128)
    q[l, l] = 1.0
    for m in range(1, l + 1):
        q[l - m, l + m] = math.sqrt(0.5)
        q[l - m, l - m] = -1j * math.sqrt(0.5)
        q[l + m, l + m] = (-1) ** m * math.sqrt(0.5)
        q[l + m, l - m] = 1j * (-1) ** m * math.sqrt(0.5)
    # This phase makes generators and 3j tensors real.
    return (-1j) ** l * q
