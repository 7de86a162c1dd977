"""A product of signals on a grid of the sphere."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor

from equigeo.nn import Tables
from equigeo.ops import grid_product
from equigeo.ops.runtime.storage import computed_in
from equigeo.tensor_products.signals.signal_method import SignalMethod
from equigeo.tensor_products.sphere.basis import Basis, basis_scale
from equigeo.tensor_products.sphere.sphere_grid import SphereGrid

Factors = tuple[Tensor, Tensor]


@final
class GridMethod(SignalMethod):
    """Both signals on the grid, their product there, and its coefficients, in one op.

    Parameters
    ----------
    first, second, out : tuple of (Tensor, Tensor), float64
        Factors of the basis functions along meridians, (summands, coefficients, latitudes), and
        along parallels, (summands, orders, longitudes); for the output with quadrature weights.
    """

    def __init__(self, first: Factors, second: Factors, out: Factors) -> None:
        super().__init__()
        pairs = {"x": first, "y": second, "z": out}
        self._names = [f"{kind}_{name}" for name in pairs for kind in ("legendre", "trig")]
        self.tables = Tables(**dict(zip(self._names, (*first, *second, *out), strict=True)))
        self._shapes = [(*legendre.shape, *trig.shape[1:]) for legendre, trig in pairs.values()]

    def multiply_adds(self) -> int:
        """Count those of separable transforms, order by order along meridians."""
        summands = max(shape[0] for shape in self._shapes)
        _, _, latitudes, _, longitudes = self._shapes[0]
        # The product at every point, once for each summand of the integrand.
        count = summands * latitudes * longitudes
        for number, coefficients, _, orders, _ in self._shapes:
            count += number * latitudes * (coefficients + orders * longitudes)
        return count

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Transform to the grid, multiply there, and transform back.

        Raises
        ------
        TypeError
            If the dtype is none that :func:`equigeo.ops.grid_product` takes.
        """
        dtype = computed_in(x.dtype)
        return grid_product(x, y, *(self.tables[name, dtype] for name in self._names))


def synthesis(factors: Factors, basis: Basis) -> Factors:
    """Pass from the harmonics of mean square one to those of a basis.

    Parameters
    ----------
    factors : tuple of (Tensor, Tensor), float64
        From a grid.
    basis : {"component", "integral", "norm"}
        Of the coefficients that are to be evaluated.

    Returns
    -------
    tuple of (Tensor, Tensor), float64
        Factors of the functions of the basis.
    """
    legendre, trig = factors
    scales = degree_scales(legendre.shape[1], basis).to(legendre.device)
    return legendre * scales[:, None], trig


def analysis(grid: SphereGrid, lmax: int, basis: Basis) -> Factors:
    """Factors that turn values on a grid into coefficients.

    Parameters
    ----------
    grid : SphereGrid
        Where the values are.
    lmax : int
        Largest degree wanted.
    basis : {"component", "integral", "norm"}
        Of the coefficients.

    Returns
    -------
    tuple of (Tensor, Tensor), float64
        Harmonics times quadrature weights.
    """
    legendre, trig = grid.harmonics(lmax)
    mean = grid.weights / (2 * grid.longitudes)  # an average over the sphere
    scales = degree_scales(legendre.shape[1], basis).to(legendre.device)
    return legendre * mean / scales[:, None], trig


def degree_scales(coefficients: int, basis: Basis) -> Tensor:
    """List the scale of the basis function of every coefficient.

    Parameters
    ----------
    coefficients : int
        Of a signal; a square.
    basis : {"component", "integral", "norm"}
        The basis.

    Returns
    -------
    Tensor, (coefficients,), float64
        By degree and order, on the CPU.
    """
    scales = [basis_scale("basis", basis, math.isqrt(k)) for k in range(coefficients)]
    return torch.tensor(scales, dtype=torch.float64, device="cpu")


def resolve_grid(
    grid: SphereGrid | tuple[int, int] | None, degree: int, default: int | None = None
) -> SphereGrid:
    """Read the argument ``grid`` of a product.

    Parameters
    ----------
    grid : SphereGrid, (int, int) or None
        A grid, numbers of Gauss-Legendre latitudes and of longitudes, or the smallest exact one.
    degree : int
        To which it must be exact.
    default : int, optional
        Degree of the smallest one; by default ``degree``.

    Returns
    -------
    SphereGrid
        Exact to the degree.

    Raises
    ------
    ValueError
        If the grid is too small: results would be wrong, not just inaccurate.
    """
    if grid is None:
        return SphereGrid.exact(degree if default is None else default)
    found = grid if isinstance(grid, SphereGrid) else SphereGrid.gauss_legendre(*grid)
    if found.degree < degree:
        raise ValueError(
            f"grid must be exact for polynomials of degree {degree}, as {degree // 2 + 1} "
            f"Gauss-Legendre latitudes x {degree + 1} longitudes are, got {found.latitudes} x "
            f"{found.longitudes}, exact to degree {found.degree}"
        )
    return found
