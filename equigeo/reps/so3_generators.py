"""Generators of rotations in the real basis of spherical harmonics."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from equigeo._kept import kept
from equigeo.reps.real_basis import complex_from_real


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
