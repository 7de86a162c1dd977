import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import equigeo.tensor_products as tp
from equigeo.tensor_products import SphereGrid
from equigeo.testing import tolerance
from tests.tensor_products.signal_helpers import fejer
from tests.wrong_inputs import refused

F64 = torch.float64


def integrals(grid: SphereGrid, lmax: int) -> Tensor:
    """Integrals of all harmonics, from their values at the points."""
    area = grid.weights[:, None] * 2 * math.pi / grid.longitudes
    values = tp.spherical_harmonics(range(lmax + 1), grid.points(), True)
    return (area[..., None] * values).sum((0, 1))


def true_integrals(lmax: int) -> Tensor:
    return math.sqrt(4 * math.pi) * torch.eye((lmax + 1) ** 2, dtype=torch.float64)[0]


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 8, 13, 40])
def test_is_exact_to_its_degree(degree):
    grid = SphereGrid.exact(degree)
    assert grid.degree >= degree
    points = grid.latitudes * grid.longitudes
    assert_close(integrals(grid, degree), true_integrals(degree), **tolerance(F64, points))


@pytest.mark.parametrize(
    ("grid", "exact"),
    [
        (SphereGrid.gauss_legendre(5, 12), 9),
        (SphereGrid.gauss_legendre(9, 8), 7),
        (fejer(6, 9), 5),
        (fejer(9, 5), 4),
    ],
)
def test_is_not_exact_one_degree_further(grid, exact):
    assert grid.degree == exact
    points = grid.latitudes * grid.longitudes
    assert_close(integrals(grid, exact), true_integrals(exact), **tolerance(F64, points))
    # An odd number of latitudes can be exact by symmetry at the next odd degree.
    wrong = (integrals(grid, exact + 2) - true_integrals(exact + 2)).abs().max()
    assert wrong > 1e-3


@given(latitudes=st.integers(1, 40))
def test_weights_are_positive_and_nodes_symmetric(latitudes):
    grid = SphereGrid.gauss_legendre(latitudes, 3)
    assert (grid.latitudes, grid.longitudes) == (latitudes, 3)
    assert (grid.weights > 0).all()
    assert_close(grid.weights.sum().item(), 2.0, **tolerance(F64, latitudes))
    assert (grid.polar.diff() > 0).all()
    assert_close(grid.polar + grid.polar.flip(0), torch.full_like(grid.polar, math.pi))


def test_points_lie_on_the_sphere_around_the_axis_y():
    grid = SphereGrid.gauss_legendre(4, 6)
    points = grid.points()
    assert_close(points.norm(dim=-1), torch.ones(4, 6, dtype=torch.float64))
    assert (points[0, :, 1] > 0.8).all()
    assert_close(points[:, 0, 0], torch.zeros(4, dtype=torch.float64), rtol=0, atol=0)
    assert (points[:, 0, 2] > 0).all()


@pytest.mark.parametrize("lmax", [0, 1, 5, 20])
def test_factors_make_the_harmonics(lmax):
    grid = SphereGrid.gauss_legendre(7, 10)
    want = tp.spherical_harmonics(range(lmax + 1), grid.points(), True, "component")
    bound = tolerance(F64, 2 * lmax + 1, condition=max(1, lmax))  # degrees are slopes
    assert_close(product(grid.harmonics(lmax))[0], want, **bound)


@pytest.mark.parametrize("lmax", [0, 1, 5, 12])
def test_factors_make_the_surface_gradients(lmax):
    grid = SphereGrid.gauss_legendre(5, 8)
    points = grid.points()
    radial, axis = points, torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64).expand_as(points)
    east = torch.nn.functional.normalize(torch.linalg.cross(axis, radial), dim=-1)
    south = torch.linalg.cross(east, radial)

    harmonics = tp.SphericalHarmonics(range(lmax + 1), True, "component")
    jacobian = torch.func.vmap(torch.func.jacrev(harmonics))(points.view(-1, 3))
    jacobian = jacobian.view(*points.shape[:-1], -1, 3)
    want = torch.stack([torch.einsum("ijck,ijk->ijc", jacobian, v) for v in (south, east)])
    bound = tolerance(F64, 2 * lmax + 1, condition=max(1, lmax))
    assert_close(product(grid.gradients(lmax)), want, **bound)


def product(factors: tuple[Tensor, Tensor]) -> Tensor:
    """Multiply both factors: (summands, latitudes, longitudes, coefficients)."""
    legendre, trig = factors
    lmax = trig.shape[1] // 2
    orders = [lmax + m for l in range(lmax + 1) for m in range(-l, l + 1)]
    return torch.einsum("sci,scj->sijc", legendre, trig[:, orders])


def test_impossible_grids_are_refused():
    refused("at least one latitude and longitude, got 0 x 3", SphereGrid.gauss_legendre, 0, 3)
    refused("got 3 x -1", SphereGrid.gauss_legendre, 3, -1)
    refused("degree must not be negative, got -1", SphereGrid.exact, -1)
