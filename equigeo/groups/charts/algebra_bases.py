"""Bases of the two halves of a matrix algebra: skew matrices and symmetric matrices."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from equigeo._kept import kept
from equigeo.groups.inclusions import Stretches


@kept
def rotation_basis(n: int) -> Tensor:
    """Skew matrices that turn one coordinate plane; in 3D ``hat(e_x), hat(e_y), hat(e_z)``.

    Parameters
    ----------
    n : int
        Dimension of space.

    Returns
    -------
    Tensor, (n (n - 1) / 2, n, n), float64
        A cached table: callers must not write to it. Planes come in the order of their axis for
        ``n = 3`` and in lexicographic order otherwise.

    Examples
    --------
    >>> rotation_basis(2).tolist()
    [[[0.0, -1.0], [1.0, 0.0]]]
    """
    planes = [(1, 2), (2, 0), (0, 1)]  # right-handed about x, y, z
    if n != 3:
        planes = [(i, j) for i in range(n) for j in range(i + 1, n)]
    basis = torch.zeros(len(planes), n, n, dtype=torch.float64)
    for k, (i, j) in enumerate(planes):
        basis[k, i, j], basis[k, j, i] = -1.0, 1.0
    return basis


def hat(axis: Tensor) -> Tensor:
    """Skew matrices that take cross products: ``hat(a) b = a x b``.

    Parameters
    ----------
    axis : Tensor, (..., 3), floating
        Vectors.

    Returns
    -------
    Tensor, (..., 3, 3), dtype of ``axis``
        Written out, because a table would interrupt compilation with a warning.
    """
    x, y, z = axis.unbind(-1)
    zero = torch.zeros_like(x)
    return torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).unflatten(-1, (3, 3))


def vee(skew: Tensor) -> Tensor:
    """Vectors of skew matrices, the inverse of :func:`hat`.

    Parameters
    ----------
    skew : Tensor, (..., 3, 3), floating
        Matrices, of which only the lower entries of each pair are read.

    Returns
    -------
    Tensor, (..., 3), dtype of ``skew``
        Axes times angles.
    """
    return torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], -1)


@kept
def symmetric_basis(n: int) -> Tensor:
    """Symmetric matrices, orthonormal for ``tr(A^T B)``, in row-major upper-triangular order.

    Parameters
    ----------
    n : int
        Dimension of space.

    Returns
    -------
    Tensor, (n (n + 1) / 2, n, n), float64
        ``E_ii`` and ``(E_ij + E_ji) / sqrt 2``. A cached table: callers must not write to it.
    """
    return torch.stack([_symmetric_unit(n, i, j) for i in range(n) for j in range(i, n)])


@kept
def traceless_symmetric_basis(n: int) -> Tensor:
    """Traceless symmetric matrices, orthonormal for ``tr(A^T B)``: diagonal ones first.

    Parameters
    ----------
    n : int
        Dimension of space.

    Returns
    -------
    Tensor, (n (n + 1) / 2 - 1, n, n), float64
        ``diag(1, ..., 1, -k, 0, ...) / sqrt(k (k + 1))`` for ``k = 1 ... n - 1``, then
        ``(E_ij + E_ji) / sqrt 2``. A cached table: callers must not write to it.
    """
    diagonal = []
    for k in range(1, n):
        entries = [1.0] * k + [-float(k)] + [0.0] * (n - k - 1)
        unit = torch.diag(torch.tensor(entries, dtype=torch.float64))
        diagonal.append(unit / math.sqrt(k * (k + 1)))
    mixed = [_symmetric_unit(n, i, j) for i in range(n) for j in range(i + 1, n)]
    return torch.stack(diagonal + mixed)


def stretch_basis(stretches: Stretches, n: int) -> Tensor:
    """Basis of a space of symmetric matrices.

    Parameters
    ----------
    stretches : Stretches
        The space.
    n : int
        Dimension of space.

    Returns
    -------
    Tensor, (d, n, n), float64
        Callers must not write to it. The identity alone is not normalised: its coordinate is the
        logarithm of the factor.
    """
    if stretches is Stretches.SYMMETRIC:
        return symmetric_basis(n)
    if stretches is Stretches.TRACELESS:
        return traceless_symmetric_basis(n)
    if stretches is Stretches.UNIFORM:
        return torch.eye(n, dtype=torch.float64, device="cpu")[None]
    return torch.zeros(0, n, n, dtype=torch.float64, device="cpu")


def _symmetric_unit(n: int, i: int, j: int) -> Tensor:
    unit = torch.zeros(n, n, dtype=torch.float64)
    unit[i, j] = unit[j, i] = 1.0 if i == j else math.sqrt(0.5)
    return unit
