"""Values of expansions on a product grid of the sphere, and back."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class SeparableTransform:
    """Sphere transform along meridians per order, then along parallels."""

    def __init__(
        self,
        legendre: Tensor,  # (summands, (L + 1)^2, latitudes)
        trig: Tensor,  # (summands or 1, 2 L + 1, longitudes)
    ) -> None:
        size = legendre.shape[1]
        lmax = math.isqrt(size) - 1
        orders, degrees = range(-lmax, lmax + 1), range(lmax + 1)
        # A rectangle of orders and degrees; the corners it has too many are read from a zero that
        # is put behind the coefficients.
        place = [[l * l + l + m if l >= abs(m) else size for l in degrees] for m in orders]
        back = [(lmax + m) * (lmax + 1) + l for l in degrees for m in range(-l, l + 1)]
        self._place = torch.tensor(place, device=trig.device)
        self._back = torch.tensor(back, device=trig.device)
        zero = legendre.new_zeros(legendre.shape[0], 1, legendre.shape[2])
        self._legendre = torch.cat([legendre, zero], 1)[:, self._place]
        self._trig = trig

    def evaluate(
        self,
        x: Tensor,  # (samples, (L + 1)^2)
    ) -> Tensor:
        """Return the values of expansions, (summands, samples, latitudes, longitudes)."""
        # f(i, j) = sum_m trig_m(j) sum_l legendre_lm(i) x_lm
        by_order = torch.cat([x, x.new_zeros(x.shape[0], 1)], 1).mT[self._place].mT
        parallels = by_order @ self._legendre  # (summands, orders, samples, latitudes)
        return (parallels.flatten(2).mT @ self._trig).unflatten(1, parallels.shape[2:])

    def analyze(
        self,
        values: Tensor,  # (summands, samples, latitudes, longitudes)
    ) -> Tensor:
        """Apply the transpose of :meth:`evaluate` and sum over summands: (samples, (L + 1)^2)."""
        if len(self._legendre) == len(self._trig) == 1:
            values = values.sum(0, keepdim=True)
        parallels = (self._trig @ values.flatten(1, 2).mT).unflatten(2, values.shape[1:3])
        by_order = (parallels @ self._legendre.mT).sum(0)  # (orders, samples, degrees)
        return by_order.permute(1, 0, 2).flatten(1)[:, self._back]
