"""Gaussians of distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from equigeo._integers import checked_integer
from equigeo.nn.radial.radial_function import RadialBasis, checked_cutoff


class GaussianBasis(RadialBasis):
    r"""Gaussians with equally spaced centers from 0 to the cutoff.

    .. math:: g_k(r) = \exp\bigl(-(r - \mu_k)^2 / 2 \sigma^2\bigr), \quad
        \mu_k = k \Delta, \quad \sigma = w \Delta, \quad \Delta = r_c / (K - 1)

    (Schütt et al., "SchNet", 2017). They do not vanish at the cutoff: multiply by
    :class:`PolynomialCutoff`. Other arguments: see :class:`BesselBasis`.

    Parameters
    ----------
    num_basis : int
        :math:`K`, at least two.
    width : float
        :math:`w`: standard deviation over spacing. SchNet and MACE use 1, fairchem 2.
    trainable : bool
        Whether ``centers``, :math:`\mu_k`, is a parameter.

    Examples
    --------
    >>> GaussianBasis(5.0, 3)(torch.tensor([0.0, 2.5], dtype=torch.float64)).round(decimals=4)
    tensor([[1.0000, 0.6065, 0.1353],
            [0.6065, 1.0000, 0.6065]], dtype=torch.float64)
    """

    def __init__(
        self,
        cutoff: float,
        num_basis: int = 128,
        *,
        width: float = 1.0,
        trainable: bool = False,
    ) -> None:
        num_basis = checked_integer("num_basis", num_basis, 2)
        spacing = checked_cutoff(cutoff) / (num_basis - 1)
        if not 0 < width < math.inf:
            raise ValueError(f"width must be positive and finite, got {width}")
        centers = torch.arange(num_basis, dtype=torch.float64, device="cpu") * spacing
        super().__init__(cutoff, centers, "centers", trainable=trainable)
        self.width = float(width)
        self._deviation = width * spacing

    def _evaluate(self, distances: Tensor) -> Tensor:
        z = (distances[..., None] - self._numbers(distances.dtype)) / self._deviation
        return torch.exp(-0.5 * z.square())
