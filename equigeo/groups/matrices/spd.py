"""Exponential, logarithm and root between symmetric and positive definite matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups.matrices.check_matrices import (
    check_square,
    determinant,
    full_precision,
    scale_of,
    symmetric_part,
    values_at_hand,
)
from equigeo.groups.matrices.entire_functions import asinhc_root, exp_parts
from equigeo.groups.matrices.symmetric_functions import (
    EXP,
    LOG,
    SQRT,
    SpectralFunction,
    check_positive,
)


def spd_exp(y: Tensor) -> Tensor:
    """Return the exponential of symmetric matrices, which is positive definite."""
    check_square("y", y)
    with full_precision(y):
        if y.shape[-1] != 2:
            return SpectralFunction.apply(symmetric_part(y), EXP)[0]
        mean, deviation, square = _planar_parts(symmetric_part(y))
        identity = torch.eye(2, dtype=y.dtype, device=y.device)
        # deviation^2 = square * 1 (Cayley and Hamilton), so that the series splits by parity
        even, odd = exp_parts(mean, square)
        return even * identity + odd * deviation


def spd_log(p: Tensor) -> Tensor:
    """Return the logarithm of positive definite matrices, the inverse of :func:`spd_exp`."""
    check_square("p", p)
    with full_precision(p):
        if p.shape[-1] != 2:
            return SpectralFunction.apply(symmetric_part(p), LOG)[0]
        p = symmetric_part(p)
        size = scale_of(p)
        p = p / size
        scale = _planar_root_of_determinant("spd_log", p)
        _, deviation, square = _planar_parts(p)
        # eigenvalues are scale * exp(+-t) with sinh t = radius / scale: no small difference
        odd = asinhc_root(square / scale.square()) / scale
        logarithm = scale.log() + size.log()
        return logarithm * torch.eye(2, dtype=p.dtype, device=p.device) + odd * deviation


def spd_sqrt(p: Tensor) -> Tensor:
    """Return the positive definite square root of positive definite matrices (..., n, n).

    Takes the symmetric part of float32 or float64 matrices. Twice differentiable, also where
    eigenvalues are equal. Matrices that are not positive definite raise ``ValueError``.

    Examples
    --------
    >>> import torch
    >>> spd_sqrt(torch.diag(torch.tensor([4.0, 9.0]))).diagonal()
    tensor([2., 3.])
    """
    check_square("p", p)
    with full_precision(p):
        if p.shape[-1] != 2:
            return SpectralFunction.apply(symmetric_part(p), SQRT)[0]
        p = symmetric_part(p)
        size = scale_of(p)
        p = p / size
        scale = _planar_root_of_determinant("spd_sqrt", p)
        trace = p.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        identity = torch.eye(2, dtype=p.dtype, device=p.device)
        # r^2 - tr(r) r + det(r) = 0 for the root r, with det r = scale, tr^2 r = tr p + 2 det r
        return size.sqrt() * (p + scale * identity) / (trace + 2 * scale).sqrt()


def _planar_parts(s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return half trace, traceless part and its squared eigenvalue of symmetric (..., 2, 2)."""
    mean = s.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    deviation = s - mean * torch.eye(2, dtype=s.dtype, device=s.device)
    square = deviation[..., :1, :1].square() + deviation[..., :1, 1:].square()
    return mean, deviation, square


def _planar_root_of_determinant(name: str, p: Tensor) -> Tensor:
    """Return the geometric mean (..., 1, 1) of positive eigenvalues of (..., 2, 2)."""
    det = determinant(p)
    if values_at_hand(p):
        mean, _, square = (part[..., 0, 0].detach() for part in _planar_parts(p))
        high = mean + square.sqrt()  # the lower one is det / high: no difference of near numbers
        check_positive(name, torch.stack([det.detach() / high, high], -1))
    return det.sqrt()[..., None, None]
