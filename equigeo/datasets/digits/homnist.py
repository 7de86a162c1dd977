"""The homNIST benchmark, generated from MNIST."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from equigeo.datasets.digits.centred import CANVAS
from equigeo.datasets.digits.transformed_digits import TransformedDigits

# E11 - I/3, E12, E13, E21, E22 - I/3, E23, E31, E32
_BASIS: Final = np.delete(np.eye(9), 8, axis=0).reshape(8, 3, 3) - np.array(
    [np.eye(3) / 3 if k in (0, 4) else np.zeros((3, 3)) for k in range(8)]
)
# Half the scales of the published random walk, in the order of the basis.
_SCALES: Final = np.array([0.15, 0.35, 0.17, 0.35, 0.15, 0.17, 0.15, 0.15]) / 2
_HALF_SIDE = (CANVAS - 1) / 2
_TERMS = 24  # elements have norms of about 0.4; even at 2 the rest is 2**24 / 24! = 3e-17


class HomNIST(TransformedDigits):
    r"""Random homographies of digits, on a canvas of 40 x 40.

    A version is :math:`\exp(\sum_i v_i B_i)` with a basis B of sl(3), acting on the canvas as the
    square [-1, 1] x [-1, 1]. Each :math:`v_i` is normal with half the scale 0.15, 0.35, 0.17, 0.35,
    0.15, 0.17, 0.15 or 0.15, followed by one step of the same distribution, accepted so that the
    chain has the Haar measure as its stationary distribution. A digit may leave the canvas. The
    published set has 32 versions of every test digit.

    Parameters
    ----------
    images, labels, split, variants, seed
        See `AffNIST`.

    References
    ----------
    MacDonald et al., "Enabling equivariance for arbitrary Lie groups", 2022. The published file
    holds other draws, and grey values that are not rounded.

    Examples
    --------
    >>> import torch
    >>> digit = torch.zeros(1, 28, 28, dtype=torch.uint8)
    >>> digit[0, 6:22, 13:15] = 255
    >>> homnist = HomNIST(digit, torch.tensor([1]), "test", range(2))
    >>> homnist.batch(torch.arange(2))[0].shape
    torch.Size([2, 40, 40])
    """

    _stream = "homnist"
    _draws = 17

    def _maps(self, draws: NDArray[np.float64], indices: Tensor) -> NDArray[np.float64]:
        start = _SCALES * ndtri(draws[:, :8])
        end = start + _SCALES * ndtri(draws[:, 8:16])
        ratio = _haar_density(_algebra(end)) / _haar_density(_algebra(start))
        chosen = np.where((draws[:, 16] < ratio)[:, None], end, start)
        square = np.array([_HALF_SIDE, _HALF_SIDE, 1.0])
        return _exponential(_algebra(chosen)) * square[:, None] / square


def _algebra(v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Combine the basis of sl(3) with coefficients, (count, 8) to (count, 3, 3)."""
    total = np.zeros((len(v), 3, 3))
    for k in range(8):
        total += v[:, k, None, None] * _BASIS[k]
    return total


def _haar_density(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the density of the Haar measure in exponential coordinates."""
    # The Jacobian of exp is the determinant of (1 - exp(-ad)) / ad: ad has the differences d of
    # eigenvalues for eigenvalues, and d and -d together give (sinh(d / 2) / (d / 2)) ** 2.
    eigenvalues = np.linalg.eigvals(x).astype(complex)
    density = np.ones(len(x), dtype=complex)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        half = (eigenvalues[:, i] - eigenvalues[:, j]) / 2
        safe = np.where(half == 0, 1, half)
        density *= np.where(half == 0, 1, np.sinh(safe) / safe) ** 2
    return density.real


def _exponential(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum the exponential series, exact to rounding for the short elements drawn here."""
    total = np.broadcast_to(np.eye(3), x.shape).copy()
    for k in range(_TERMS, 0, -1):
        # Written out because the rounding of a matrix product may depend on the batch.
        product = sum(x[:, :, i, None] * total[:, None, i, :] for i in range(3))
        total = np.eye(3) + product / k
    return total
