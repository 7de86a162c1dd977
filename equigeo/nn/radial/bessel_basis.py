"""Spherical Bessel functions of distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from equigeo._integers import checked_integer
from equigeo.nn.radial.radial_function import RadialBasis, checked_cutoff

_NEAR = 0.5
# Series of sin(x)/x in powers of x^2; the first omitted term is below 1e-19 for |x| < 0.5.
_SERIES = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(8))


class BesselBasis(RadialBasis):
    r"""Spherical Bessel functions of degree 0 that vanish at the cutoff, as in MACE.

    .. math:: b_n(r) = \sqrt{2/r_c}\; \frac{\sin(n \pi r / r_c)}{r}, \quad n = 1, \dots, N

    (Gasteiger, Groß, Günnemann, "Directional Message Passing for Molecular Graphs", 2020). They are
    orthonormal on :math:`[0, r_c]` with weight :math:`r^2` and nonzero beyond: multiply by
    :class:`PolynomialCutoff`. NequIP divides them by :math:`(\pi/r_c) \sqrt{2/r_c}`.

    Parameters
    ----------
    cutoff : float
        :math:`r_c`, in the unit of the distances.
    num_basis : int
        :math:`N`.
    trainable : bool
        Whether ``frequencies``, :math:`n \pi / r_c`, is a parameter. Trained functions no longer
        vanish at the cutoff.

    Examples
    --------
    >>> BesselBasis(5.0, 3)(torch.tensor([2.5], dtype=torch.float64)).round(decimals=4).abs()
    tensor([[0.2530, 0.0000, 0.2530]], dtype=torch.float64)
    """

    def __init__(self, cutoff: float, num_basis: int = 8, *, trainable: bool = False) -> None:
        num_basis = checked_integer("num_basis", num_basis, 1)
        multiples = torch.arange(1, num_basis + 1, dtype=torch.float64, device="cpu")
        frequencies = multiples * (math.pi / checked_cutoff(cutoff))
        super().__init__(cutoff, frequencies, "frequencies", trainable=trainable)

    def _evaluate(self, distances: Tensor) -> Tensor:
        frequencies = self._numbers(distances.dtype)
        waves = sin_over(distances[..., None] * frequencies)
        return waves * (frequencies * math.sqrt(2 / self.cutoff))


def sin_over(x: Tensor) -> Tensor:
    """Return sin(x) / x, 1 at zero, with exact derivatives of all orders unlike ``torch.sinc``."""
    near = x.abs() < _NEAR
    # Each branch gets only arguments at which its derivatives are finite.
    square = torch.where(near, x, 0.0).square()
    far = torch.where(near, 1.0, x)
    series = torch.full_like(x, _SERIES[-1])
    for coefficient in _SERIES[-2::-1]:
        series = series * square + coefficient
    return torch.where(near, series, far.sin() / far)
