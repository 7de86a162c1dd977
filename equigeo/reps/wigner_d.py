"""Wigner D matrices without Euler angles."""

from __future__ import annotations

from torch import Tensor

from equigeo.groups import matrix_exp, rotation_log
from equigeo.reps.so3_generators import so3_generators_table


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
