"""Smooth envelope at the cutoff."""

from __future__ import annotations

import math

from torch import Tensor

from equigeo._integers import checked_integer
from equigeo.nn.radial.radial_function import RadialFunction


class PolynomialCutoff(RadialFunction):
    r"""Polynomial envelope that decreases from 1 to 0 at the cutoff and is zero beyond.

    .. math:: u(x) = 1 - \tfrac{(p+1)(p+2)}{2} x^p + p(p+2) x^{p+1} - \tfrac{p(p+1)}{2} x^{p+2},
        \quad x = r / r_c < 1

    It has two continuous derivatives: near the cutoff it is :math:`\tfrac{1}{6} p(p+1)(p+2)
    (1-x)^3`, and near 0 it differs from 1 by order p. Reference: see :class:`BesselBasis`.

    Parameters
    ----------
    cutoff : float
        :math:`r_c`, in the unit of the distances.
    p : int
        At least two; 6 in NequIP, 5 in MACE and fairchem.

    Examples
    --------
    >>> import torch
    >>> PolynomialCutoff(5.0)(torch.tensor([0.0, 2.5, 4.5, 5.0, 6.0], dtype=torch.float64))
    tensor([1.0000, 0.8555, 0.0381, 0.0000, 0.0000], dtype=torch.float64)
    """

    def __init__(self, cutoff: float, p: int = 6) -> None:
        super().__init__(cutoff)
        self.p = checked_integer("p", p, 2)

    def _evaluate(self, distances: Tensor) -> Tensor:
        x = (distances / self.cutoff).clamp(max=1.0)
        # 1 - u vanishes to order p, u to order 3 at 1: u = (1 - x)^3 sum_{k<p} C(k + 2, 2) x^k
        rest = x.new_full((), math.comb(self.p + 1, 2))
        for k in reversed(range(self.p - 1)):
            rest = rest * x + math.comb(k + 2, 2)
        left = 1 - x
        return left * left * left * rest

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return f"cutoff={self.cutoff:g}, p={self.p}"
