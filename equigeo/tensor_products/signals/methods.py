"""Evaluation of products of signals on a grid of the sphere, or by one matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import final

import torch
from torch import Tensor, nn

from equigeo._core.checks import check_device
from equigeo._core.tensors import computed_in
from equigeo.nn import Tables
from equigeo.ops.geometry.grid_product import grid_product_op
from equigeo.reps.wigner import wigner_3j_table
from equigeo.tensor_products.sphere.legendre import Basis, basis_scale
from equigeo.tensor_products.sphere.sphere_grid import SphereGrid

Factors = tuple[Tensor, Tensor]


@final
class GridMethod(nn.Module):
    """Evaluate both signals on a grid, multiply, and transform back, in one op."""

    def __init__(
        self,
        # factors (summands, coefficients, latitudes), (summands, orders, longitudes)
        first: Factors,
        second: Factors,
        out: Factors,  # the same, with quadrature weights
    ) -> None:
        super().__init__()
        pairs = {"x": first, "y": second, "z": out}
        self._names = [f"{kind}_{name}" for name in pairs for kind in ("legendre", "trig")]
        self.tables = Tables(**dict(zip(self._names, (*first, *second, *out), strict=True)))
        self._shapes = [(*legendre.shape, *trig.shape[1:]) for legendre, trig in pairs.values()]

    def multiply_adds(self) -> int:
        """Return the count of separable transforms, order by order along meridians."""
        summands = max(shape[0] for shape in self._shapes)
        _, _, latitudes, _, longitudes = self._shapes[0]
        # The product at every point, once for each summand of the integrand.
        count = summands * latitudes * longitudes
        for number, coefficients, _, orders, _ in self._shapes:
            count += number * latitudes * (coefficients + orders * longitudes)
        return count

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Transform to the grid, multiply there, and transform back."""
        dtype = computed_in(x.dtype)
        tables = [self.tables[name, dtype] for name in self._names]
        check_device(x=x, tables=tables[0])
        return grid_product_op(x, y, *tables)


@final
class PathMethod(nn.Module):
    """Multiply signals by one dense matrix from pairs of components to outputs."""

    # The matrix is mostly zeros, but in PyTorch a dense product is much faster than gather and add.
    def __init__(
        self,
        lmax1: int,
        lmax2: int,
        lmax_out: int,
        # returns the coefficient of wigner_3j of a triple of degrees
        coupling: Callable[[int, int, int], float],
    ) -> None:
        super().__init__()
        dims = [(lmax + 1) ** 2 for lmax in (lmax1, lmax2, lmax_out)]
        table = torch.zeros(dims, dtype=torch.float64, device="cpu")
        for degrees in product(range(lmax1 + 1), range(lmax2 + 1), range(lmax_out + 1)):
            kappa = coupling(*degrees)
            if kappa != 0:
                # Degree l stands at l^2 to (l + 1)^2 in a signal.
                rows, columns, layers = (slice(l * l, (l + 1) ** 2) for l in degrees)
                table[rows, columns, layers] = kappa * wigner_3j_table(*degrees)
        self._nonzeros = int(table.count_nonzero())
        self.tables = Tables(paths=table.flatten(0, 1))

    def multiply_adds(self) -> int:
        """Return the number of nonzeros."""
        return self._nonzeros

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Multiply all pairs of components and sum them by the table."""
        pairs = (x[:, :, None] * y[:, None, :]).flatten(1)
        return pairs @ self.tables["paths", x.dtype]


def synthesis(factors: Factors, basis: Basis) -> Factors:
    """Scale factors of harmonics of mean square one on a grid to those of a basis."""
    legendre, trig = factors
    scales = degree_scales(legendre.shape[1], basis).to(legendre.device)
    return legendre * scales[:, None], trig


def analysis(grid: SphereGrid, lmax: int, basis: Basis) -> Factors:
    """Return the factors that convert values on a grid to coefficients in a basis."""
    legendre, trig = grid.harmonics(lmax)
    mean = grid.weights / (2 * grid.longitudes)  # an average over the sphere
    scales = degree_scales(legendre.shape[1], basis).to(legendre.device)
    return legendre * mean / scales[:, None], trig


def degree_scales(coefficients: int, basis: Basis) -> Tensor:
    """Return the scale of the basis function of every coefficient, (coefficients,) float64."""
    scales = [basis_scale("basis", basis, math.isqrt(k)) for k in range(coefficients)]
    return torch.tensor(scales, dtype=torch.float64, device="cpu")


def resolve_grid(
    # a grid, numbers of latitudes and longitudes, or the smallest exact one
    grid: SphereGrid | tuple[int, int] | None,
    degree: int,  # required exactness
    default: int | None = None,  # degree of the smallest grid, by default ``degree``
) -> SphereGrid:
    """Return the grid for an argument, and raise if it is not exact to the degree."""
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
