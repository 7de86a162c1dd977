"""Product grids on the sphere that integrate polynomials exactly."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index

import numpy as np
import scipy
import torch
from torch import Tensor

from equigeo._core.checks import checked_integer
from equigeo.tensor_products.sphere.legendre import meridian_factors


@dataclass(frozen=True, eq=False)
class SphereGrid:
    r"""Latitudes and evenly spaced longitudes with quadrature weights.

    The point at the polar angle b and azimuth a is :math:`(\sin b \sin a, \cos b, \sin b \cos a)`:
    the polar axis is y, as in e3nn. No point is a pole.

    Parameters
    ----------
    polar : Tensor, (latitudes,), float64
        Polar angles in radians, ascending.
    weights : Tensor, (latitudes,), float64
        Of an integral over the cosine of the polar angle; their sum is 2.
    longitudes : int
        Azimuths are multiples of ``2 pi / longitudes``.
    degree : int
        Largest degree of polynomials in (x, y, z) that are integrated exactly.

    Examples
    --------
    >>> grid = SphereGrid.exact(4)
    >>> len(grid.polar), grid.longitudes, grid.degree
    (3, 5, 4)
    """

    polar: Tensor
    weights: Tensor
    longitudes: int
    degree: int

    @classmethod
    def gauss_legendre(cls, latitudes: int, longitudes: int) -> SphereGrid:
        """Build a grid on the roots of a Legendre polynomial, the fewest latitudes for a degree.

        It is exact to the smaller of the degrees ``2 latitudes - 1`` and ``longitudes - 1``.
        """
        sizes = checked_integer("latitudes", latitudes), checked_integer("longitudes", longitudes)
        if min(sizes) < 1:
            got = f"{latitudes} x {longitudes}"
            raise ValueError(f"a grid must have at least one latitude and longitude, got {got}")
        roots, weights = scipy.special.roots_legendre(latitudes)
        polar, weights = (torch.from_numpy(x).flip(0) for x in (np.arccos(roots), weights))
        # n nodes of Gauss integrate 2 n - 1 degrees; n even longitudes integrate orders below n.
        return cls(polar, weights, index(longitudes), min(2 * latitudes, longitudes) - 1)

    @classmethod
    def exact(cls, degree: int) -> SphereGrid:
        """Build the smallest Gauss-Legendre grid that is exact to a degree."""
        if degree < 0:
            raise ValueError(f"degree must not be negative, got {degree}")
        return cls.gauss_legendre(degree // 2 + 1, degree + 1)

    @property
    def latitudes(self) -> int:
        """Number of latitudes."""
        return len(self.polar)

    def points(self) -> Tensor:
        """Return the points on the unit sphere, (latitudes, longitudes, 3) float64."""
        azimuth = 2 * torch.pi * torch.arange(self.longitudes, dtype=torch.float64)
        b, a = torch.meshgrid(self.polar, azimuth / self.longitudes, indexing="ij")
        return torch.stack([b.sin() * a.sin(), b.cos(), b.sin() * a.cos()], -1)

    def harmonics(self, lmax: int) -> tuple[Tensor, Tensor]:
        """Return the spherical harmonics of mean square one on the grid, as two factors.

        Along a meridian (1, (lmax + 1)^2, latitudes), degree l and order m at ``l^2 + l + m``;
        along a parallel (1, 2 lmax + 1, longitudes), orders ``-lmax`` to ``lmax``.
        """
        value, _, _ = meridian_factors(lmax, self.polar)
        return value[None], self._trig(lmax)[None]

    def gradients(self, lmax: int) -> tuple[Tensor, Tensor]:
        """Return the surface gradients of the same harmonics, southward and eastward.

        Shapes as for :meth:`harmonics`, with the component of the gradient as first axis.
        """
        _, slope, over_sine = meridian_factors(lmax, self.polar)
        trig = self._trig(lmax)
        order = torch.arange(-lmax, lmax + 1, device=self.polar.device)[:, None]
        # d/da makes |m| cos of sin |m|a and -m sin of cos ma; |m| / sin b is in over_sine.
        turned = torch.where(order > 0, -1, 1) * (order != 0) * trig.flip(0)
        return torch.stack([slope, over_sine]), torch.stack([trig, turned])

    def _trig(self, lmax: int) -> Tensor:
        """Return sines for negative orders, one, and cosines for positive orders."""
        order = torch.arange(-lmax, lmax + 1, device=self.polar.device)[:, None]
        places = torch.arange(self.longitudes, device=order.device)
        turns = (order.abs() * places) % self.longitudes  # exact
        angle = 2 * torch.pi * turns.double() / self.longitudes
        return torch.where(order < 0, angle.sin(), angle.cos())
