"""Wigner D matrices without Euler angles."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.reps.so3_generators import so3_generators_table


def wigner_d(l: int, rotation: Tensor) -> Tensor:
    r"""Matrices of the irrep of SO(3) of degree ``l``, in the basis of e3nn.

    .. math:: D^l(R) = \exp(\omega_x G_x + \omega_y G_y + \omega_z G_z)

    with the axis-angle vector :math:`\omega` of ``R`` taken from its quaternion: exact at
    half turns, at the identity and at the poles of Euler angles alike. Computed in float64.

    Parameters
    ----------
    l : int
        Degree, not negative.
    rotation : Tensor, (..., 3, 3), floating
        Rotations; matrices of determinant -1 are not representable here.

    Returns
    -------
    Tensor, (..., 2 l + 1, 2 l + 1), dtype of ``rotation``
        Orthogonal, a homomorphism in ``rotation``, and equal to it for ``l = 1``.

    Raises
    ------
    ValueError
        If ``l`` is negative or ``rotation`` is not (..., 3, 3).

    References
    ----------
    Varshalovich, Moskalev, Khersonskii, "Quantum Theory of Angular Momentum", 1988, chapter 4.

    Examples
    --------
    >>> quarter = torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    >>> bool(torch.allclose(wigner_d(1, quarter), quarter, atol=1e-6))
    True
    """
    if rotation.shape[-2:] != (3, 3):
        raise ValueError(f"rotation must be (..., 3, 3), got {tuple(rotation.shape)}")
    generators = so3_generators_table(l).to(rotation.device)
    omega = axis_angle(quaternion(rotation.double()))
    exponent = (omega[..., None, None] * generators).sum(-3)
    return torch.linalg.matrix_exp(exponent).to(rotation.dtype)


def quaternion(rotation: Tensor) -> Tensor:
    """Unit quaternions of rotations, from the best conditioned of the four formulas.

    Parameters
    ----------
    rotation : Tensor, (..., 3, 3), floating
        Rotations.

    Returns
    -------
    Tensor, (..., 4), dtype of ``rotation``
        ``(w, x, y, z)`` with ``w >= 0``.
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = (row.unbind(-1) for row in rotation.unbind(-2))
    trace = xx + yy + zz
    # four times the outer product of the quaternion with itself
    outer = [
        [1 + trace, zy - yz, xz - zx, yx - xy],
        [zy - yz, 1 + 2 * xx - trace, xy + yx, xz + zx],
        [xz - zx, xy + yx, 1 + 2 * yy - trace, yz + zy],
        [yx - xy, xz + zx, yz + zy, 1 + 2 * zz - trace],
    ]
    rows = torch.stack([torch.stack(row, -1) for row in outer], -2)
    best = rows.diagonal(dim1=-2, dim2=-1).argmax(-1)
    row = torch.take_along_dim(rows, best[..., None, None], dim=-2)[..., 0, :]
    q = row / torch.linalg.vector_norm(row, dim=-1, keepdim=True)
    return torch.where(q[..., :1] < 0, -q, q)


def axis_angle(q: Tensor) -> Tensor:
    """Axis times angle of unit quaternions.

    Parameters
    ----------
    q : Tensor, (..., 4), floating
        ``(w, x, y, z)`` with ``w >= 0``.

    Returns
    -------
    Tensor, (..., 3), dtype of ``q``
        Vectors of length at most pi; differentiable at the identity too.
    """
    w, v = q[..., :1], q[..., 1:]
    square = v.square().sum(-1, keepdim=True)
    near = square < torch.finfo(q.dtype).eps  # the limit is exact to rounding there
    sine = torch.where(near, 1.0, square).sqrt()  # never the root of zero: its gradient is NaN
    return v * torch.where(near, 2 / w, 2 * torch.atan2(sine, w) / sine)
