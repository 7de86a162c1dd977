"""The change of basis between complex and real spherical harmonics."""

from __future__ import annotations

import math

import numpy as np


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
